"""What of Citus a plain PostgreSQL server can be made to have, so that all but Citus itself is tried without a cluster.

A database with it says that the extension is there, keeps the same account of tables in the same catalogues, and
refuses what Citus refuses: a table whose keys leave the tenant out, or whose parents are not spread yet; a change of an
index in one query with other statements. The rows stay where they are. The calls are kept in `citus_calls`.
"""

from __future__ import annotations

from typing import Final

import psycopg

VERSION: Final = "14.0-1"
SHARDS: Final = 32
"""Shards of a table for which no number is given."""
_TABLES: Final = """
CREATE TABLE citus_calls (number serial, call text NOT NULL);
CREATE TABLE pg_dist_local_group (groupid int NOT NULL);
CREATE TABLE pg_dist_partition (logicalrelid regclass PRIMARY KEY, partmethod "char" NOT NULL, partkey text,
    colocationid int NOT NULL, repmodel "char" NOT NULL);
CREATE TABLE pg_dist_shard (logicalrelid regclass NOT NULL, shardid serial, stands_for regclass);
CREATE SEQUENCE citus_groups;
INSERT INTO pg_dist_local_group VALUES (0);
GRANT SELECT ON pg_dist_local_group, pg_dist_partition, pg_dist_shard TO PUBLIC;
"""
_EXTENSION: Final = f"""
SET LOCAL allow_system_table_mods = on;
INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
SELECT 9999999, 'citus', 10, 'public'::regnamespace, false, '{VERSION}';
"""
_FUNCTIONS: Final = f"""
CREATE FUNCTION column_to_column_name(regclass, text) RETURNS text LANGUAGE sql AS 'SELECT $2';
CREATE FUNCTION citus_get_active_worker_nodes() RETURNS TABLE (node_name text, node_port bigint)
    LANGUAGE sql AS $$ VALUES ('one', 5432), ('two', 5432) $$;
CREATE FUNCTION truncate_local_data_after_distributing_table(t regclass) RETURNS void
    LANGUAGE sql AS $$ INSERT INTO citus_calls (call) VALUES ('clear ' || t) $$;

CREATE FUNCTION create_reference_table(t regclass) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO citus_calls (call) VALUES ('reference ' || t);
    INSERT INTO pg_dist_partition VALUES (t, 'n', NULL, 1, 't');
    INSERT INTO pg_dist_shard (logicalrelid) VALUES (t);
END $$;

CREATE FUNCTION create_distributed_table(t regclass, distribution_column text, distribution_type text DEFAULT 'hash',
    colocate_with text DEFAULT 'default', shard_count int DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    place int2 := (SELECT attnum FROM pg_attribute WHERE attrelid = t AND attname = distribution_column);
    along pg_dist_partition;
BEGIN
    IF colocate_with <> 'none' AND shard_count IS NOT NULL THEN
        RAISE EXCEPTION 'cannot use colocate_with with a table and shard_count at the same time';
    END IF;
    IF colocate_with <> 'none' THEN
        SELECT * INTO STRICT along FROM pg_dist_partition WHERE logicalrelid = colocate_with::regclass;
    END IF;
    IF EXISTS (SELECT 1 FROM pg_index WHERE indrelid = t AND indisunique AND NOT place = ANY(indkey::int2[])) THEN
        RAISE EXCEPTION 'cannot create constraint on %', t USING ERRCODE = '0A000';
    END IF;
    IF EXISTS (SELECT 1 FROM pg_constraint k LEFT JOIN pg_dist_partition p ON p.logicalrelid = k.confrelid
               WHERE k.conrelid = t AND k.contype = 'f' AND (p.colocationid IS DISTINCT FROM along.colocationid
                   OR k.confdeltype IN ('n', 'd') OR NOT place = ANY(k.conkey))) THEN
        RAISE EXCEPTION 'cannot create foreign key constraint since relations are not colocated or not referencing '
            'a reference table' USING ERRCODE = '0A000';
    END IF;
    IF EXISTS (SELECT 1 FROM pg_trigger WHERE tgrelid = t AND NOT tgisinternal) THEN
        RAISE EXCEPTION 'triggers are not supported on distributed tables' USING ERRCODE = '0A000';
    END IF;
    INSERT INTO citus_calls (call)
        VALUES (format('distribute %s by %s with %s in %s', t, distribution_column, colocate_with, shard_count));
    INSERT INTO pg_dist_partition VALUES
        (t, 'h', distribution_column, coalesce(along.colocationid, nextval('citus_groups') + 1), 's');
    INSERT INTO pg_dist_shard (logicalrelid)
        SELECT t FROM generate_series(1, coalesce(shard_count, {SHARDS}));
END $$;

CREATE FUNCTION run_command_on_shards(t regclass, command text)
    RETURNS TABLE (shardid bigint, success boolean, result text) LANGUAGE plpgsql AS $$
DECLARE shard pg_dist_shard;
BEGIN
    FOR shard IN SELECT * FROM pg_dist_shard WHERE logicalrelid = t ORDER BY pg_dist_shard.shardid LOOP
        EXECUTE format(command, coalesce(shard.stands_for, t)) INTO result;
        shardid := shard.shardid;
        success := true;
        RETURN NEXT;
    END LOOP;
END $$;

CREATE FUNCTION citus_refuse_together() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
    IF current_query() ~ ';\\s*\\S' AND EXISTS (SELECT 1 FROM public.pg_dist_partition) THEN
        RAISE EXCEPTION 'current transaction is aborted' USING ERRCODE = '25P02';
    END IF;
END $$;
CREATE EVENT TRIGGER citus_refuse_together ON ddl_command_start
    WHEN TAG IN ('CREATE INDEX', 'ALTER INDEX', 'DROP INDEX') EXECUTE FUNCTION citus_refuse_together();
"""  # noqa: S608 - of constants


def install(dsn: str) -> None:
    """Give a database, as a superuser, what Citus gives one."""
    with psycopg.connect(dsn) as superuser:
        for part in (_TABLES, _EXTENSION, _FUNCTIONS):
            superuser.execute(part.encode())


def calls(dsn: str) -> list[str]:
    """Return what was asked of it, in order."""
    with psycopg.connect(dsn) as superuser:
        return [call for (call,) in superuser.execute("SELECT call FROM citus_calls ORDER BY number")]
