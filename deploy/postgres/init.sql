-- Creates the two users, the database and the extension of docs/how-to/postgres.md. The PostgreSQL image runs this once, as a
-- superuser, on an empty volume. Elsewhere: psql --set ON_ERROR_STOP=1 --file init.sql DSN, with both variables set.
\getenv owner_password OWNER_PASSWORD
\getenv application_password APPLICATION_PASSWORD

CREATE ROLE salience_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE salience_app NOLOGIN;
CREATE ROLE salience_operator NOLOGIN;
CREATE ROLE agents LOGIN PASSWORD :'application_password' IN ROLE salience_app;
CREATE DATABASE memory OWNER salience_owner ENCODING 'UTF8' TEMPLATE template0;

\connect memory
CREATE EXTENSION vector;
