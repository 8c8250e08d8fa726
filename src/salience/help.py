"""Help for agents: one short text a topic, in the words of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TOPICS: Final[Mapping[str, str]] = {
    "verbs": """\
remember(content)            store a fact, rule, decision, ...; tells of memories that it may contradict
ingest(messages)             store a conversation turn by turn; needs session_id
recall(query)                the few memories that matter now, each score taken apart
recall_many(queries)         the same for several questions at once, in less time than one by one
explain(query, id)           why a memory is or is not in the answer: the stage, the numbers, what would change it
graph_recall(query)          the same by similarity and by the entities that the query names
context(query)               bootstrap memories and hits, quoted as data, within budget_tokens
get / update / forget (id)   read, change (the version before is kept), take out of every recall
history / restore (id)       what a memory was, who changed it and why; bring it, or an older version, back
erase(ids) or a scope        delete for good, with every version; there is no way back
list / stats                 page through memories; count them
end_session(session_id)      move the session's memories to the tiers that they have earned
consolidate / upkeep         move all to those; besides, embed what is pending, expire, and drop what is kept no longer
reflect                      sum up memories that belong together in one more, which names them
export / import_ (file)      everything as lines of JSON, and back
backup(file) / doctor        copy the store while it is in use; check that it is whole, and mend it
reembed(embedder)            give the store another model, while it is in use
calibrate(pairs)             what the embedder's cosines mean, from pairs of texts that people judged
help(topic)                  topics: verbs, scope, profiles, explain, contradictions, versions, writes, fields""",
    "scope": """\
Every verb takes environment, project, user_id, agent_id and session_id.
environment matches exactly ("default" unless named). A memory is visible when each of its project, user_id and
agent_id is empty or equals the caller's: a caller that names no project sees no project's memories.
session_id hides nothing; it orders turns and primes. salience.ANY asks for every value of a coordinate.
scope="global" asks for memories without a project, scope="project" for those of the named project.
An answer without memories says in out_of_scope which scopes have some: name their project, user or agent to see them.
To get a memory, its history or why it is (not) in an answer, the id is enough; what the call names has to be right.""",
    "profiles": """\
salience     meaning and words together; weak hits are marked; the default
precise      the same scores with a cut-off: nothing where nothing stands out
mememory     similarity x scope x confidence x decay since the last update
memlayer     0.70 cosine + 0.20 recency + 0.10 importance, nothing below 0.70
zeromemory   0.5 similarity + 0.3 importance + 0.2 recency by tier; use makes memories stronger
memorysync   weights by the query's intent; one memory per fact; stale held back; paraphrases collapsed
cmm          similarity x decay x importance x priming; activation spreads to neighbours
recall(..., profile=) takes a name or the path of a TOML file of your own.""",
    "explain": """\
explain(query, id) takes the arguments of recall and changes nothing. Its stage is one of:
returned       in the answer, at rank
outranked      in the running, but past the limit; by is the last one returned
threshold      its score is below min_score; similarity_floor: its similarity is; nonzero: a factor of it is 0
cut_off        it fits the query no better than chance has it, or is far behind the best (precise)
near_duplicate collapsed into by, which ranks higher and says the same
superseded     by replaces it; same_fact: by is newer and has its fact_key; outdated: either of these
expired        its ttl is over; importance_floor: its importance is below the profile's
filtered       tags, kinds, tiers, sessions, since or until keep it out
candidates     too far down by cosine to be ranked, under a profile that ranks the nearest only
out_of_scope   the project, user, agent or environment of the call hides it; forgotten: it was forgotten
not_stored     it was stored after the instant that as_of asks for
rerank         the reranker put it past the limit
score_detail is its score taken apart, path the steps, and counterfactual the one change that would return it.""",
    "contradictions": """\
Before a memory is stored, memories visible from where it lives are compared with it. Those that are very similar
stand in the receipt's contradictions and warning; the new one is stored all the same. Each has a label: duplicate
(says the same), update (something else of the same thing, later), contradiction (both cannot hold), related (none of
these), and because, the words that gave it away. Ask the user which holds, then
keep both, update(id=old, content=...), remember(content=..., supersedes=old) or forget(id=old).""",
    "versions": """\
history(id)            every version: who made it, when, by which change, why, and which fields are new
restore(id)            what was forgotten, expired or stale is live again; restore(id, version): as it was in that one
recall(as_of=instant)  the answer as it would have been then, by when memories were stored and changed
erase(ids)             the only true delete: all versions go, and the reflections that sum them up
reason=                of update, forget and restore: why, kept in the history.
A reflection is stale, and out of every recall, once a source of it is changed; the next reflect makes it anew.""",
    "writes": """\
created        a new memory; superseded: in the place of another one
pending        stored without a vector, since the embedder failed: words find it, upkeep embeds it later
unchanged      nothing new was stored: the key, id, version or text was there
updated, forgotten, restored: the next version of a memory; the one before is kept.
A receipt means that the write is on disk; its status is one of these. A retry with the same key returns the first
memory. remember_many stores all drafts or none. superseded is the memory that recalls return no longer; the warning
says how to bring it back. The same text again is unchanged; duplicate=True stores it.""",
    "fields": """\
kind         fact, rule, decision, feedback, context, bootstrap, or a name of your own
importance   0 to 1; read from the text unless given
weight       0.1 to 1: how sure it is; a superseded memory falls to 0.1
tags         names to filter by
entities     names that link memories; read from the text unless given
fact_key     identity of the fact, such as user.theme; read from plain sentences unless given; the newest of a key holds
follows      id of the older memory of the same fact that this one came after
supersedes   id of the memory that this one replaces
ttl          seconds, or text such as 24h or 7d; after that no recall returns the memory
tier         working, episodic or semantic
key          idempotency key: a retry with the same key stores nothing new
metadata     JSON values, returned as they are
sources      of a reflection: ids of the memories that it sums up; reflection: of a source, the way back""",
}
"""What `help` answers, by topic."""
