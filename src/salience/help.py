"""Help for agents: a short text for each topic, in the terms of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TOPICS: Final[Mapping[str, str]] = {
    "verbs": """\
remember(content)            store a fact, rule, decision, ...; warns about memories that it may contradict
ingest(messages)             store a conversation turn by turn; needs session_id
recall(query)                find the few memories that matter now, with the parts of each score
recall_many(queries)         the same for several questions at once, faster than one by one
scores(query)                the scores of all memories, and the best that recall does not return
explain(query, id)           why a memory is or is not in the answer: the stage, the numbers, what would change it
decay(ids)                   how the scores of memories fade with age under a profile
profiles                     the ranking profiles: signals, weights, stages, decay
graph_recall(query)          find memories by similarity and by the entities that the query names
context(query)               bootstrap memories and hits, quoted as data, within budget_tokens
get / update / forget (id)   read a memory; change it (the previous version is kept); hide it from every recall
history / restore (id)       every version of a memory, with author and reason; bring back the memory or a version
erase(ids) or a scope        delete memories with all their versions; this cannot be undone
list / facets / stats        page through memories by many conditions; count them by the values of their fields
sessions                     the sessions, the latest first
review / dismiss             problems to look at, such as contradictions; keep one out of the review
changes / activity           who changed what, newest first; counts of each day
end_session(session_id)      move the session's memories to the tiers that they have earned
consolidate / upkeep         move all memories to their tiers; upkeep also embeds, expires and prunes
reflect                      summarise memories that belong together in one memory that lists its sources
export / import_ (file)      write all memories as lines of JSON, and read them back
backup(file) / doctor        copy the store while it is in use; check it for damage, and repair it
reembed(embedder)            change the embedding model while the store is in use
calibrate                    measure the embedder's cosines, for an embedder that is an object
help(topic)                  topics: verbs, scope, profiles, explain, contradictions, versions, writes, fields""",
    "scope": """\
Every verb takes environment, project, user_id, agent_id and session_id.
environment matches exactly; its default is "default". A memory is visible if each of its project, user_id and
agent_id is empty or equals the caller's: a caller that names no project sees no memories of projects.
session_id hides nothing; it orders turns and primes memories. salience.ANY matches every value of a coordinate.
scope="global" selects memories without a project, scope="project" those of the named project.
out_of_scope of an answer without memories lists the scopes that have some: name their project, user or agent. In a
recall from a file, it also names the scope of a memory that would be above the first hit.
get, history and explain need only the id; a coordinate that the call names must match.""",
    "profiles": """\
salience     meaning and words together; each hit has a confidence and a verdict: answers, may answer, does not answer
precise      the same scores with a cut-off: no hits if no memory stands out
mememory     similarity x scope x confidence x decay since the last update
memlayer     0.70 cosine + 0.20 recency + 0.10 importance, nothing below 0.70
zeromemory   0.5 similarity + 0.3 importance + 0.2 recency by tier; use makes memories stronger
memorysync   weights by the query's intent; one memory per fact; stale memories held back; paraphrases collapsed
cmm          similarity x decay x importance x priming; activation spreads to neighbours
recall(..., profile=) takes a name or the path of a TOML file of your own.""",
    "explain": """\
explain(query, id) takes the arguments of recall and changes nothing. Its stage is one of:
returned         in the answer, at rank
outranked        ranked below the limit
threshold        its score is below min_score
similarity_floor its similarity is below the profile's minimum
shortlist        its score without token vectors is too low for the shortlist
nonzero          a factor of its score is 0
cut_off          it fits the query no better than chance, or is far behind the best hit (precise)
same_statement   collapsed into by, which ranks higher and makes the same statement
near_duplicate   collapsed into by, which ranks higher and says the same in similar words (memorysync)
superseded       replaced by the memory in by
same_fact        the memory in by is newer and has the same fact_key
replaced         a caller said that the memory in by replaces it: by supersedes or a fact_key
expired          its ttl is over
importance_floor its importance is below the profile's minimum
filtered         excluded by tags, kinds, tiers, sessions, since, until or where
candidates       too far down by cosine, under a profile that ranks only the nearest memories
out_of_scope     hidden by the project, user, agent or environment of the call
forgotten        it was forgotten
not_stored       it was stored after the time in as_of
rerank           the reranker placed it below the limit
Below rank 1, by is the first hit, and above has what put that one higher: the differences of the parts of the score.
score_detail has the parts of its score, and path the steps. counterfactual is the change that would put it first, or
return it; it was tried, and nothing was written. change has it as arguments: of update(id, ...), of recall(...), of
dismiss(...), or the id to forget.""",
    "contradictions": """\
Before a memory is stored, it is compared with the memories that are visible from its scope. Very similar memories
are listed in the receipt's contradictions and warning; the new memory is stored anyway. Each has a label: duplicate
(says the same), update (a later statement about the same thing), contradiction (both cannot be true) or related
(none of these); because has the words that decided it. Ask the user which is true, then
keep both, update(id=old, content=...), update(id=new, supersedes=old) or forget(id=old). If a stored memory replaces
another one, get, list and recall say so in replaced_by; dismiss(new, old) undoes it, update(new, supersedes=old)
confirms it.""",
    "versions": """\
history(id)            every version: its author, time, change and reason, and the fields that changed
restore(id)            make a forgotten, expired or stale memory live again; restore(id, version): as in that version
recall(as_of=instant)  the answer at an earlier time, from the memories as they were then
erase(ids)             the only permanent deletion: of all versions, and of the reflections that summarise them
reason=                of update, forget and restore: the reason of the change, kept in the history.
A reflection becomes stale and leaves every recall once one of its sources changes; the next reflect renews it.""",
    "writes": """\
created        a new memory; superseded: a new memory that replaces another one
pending        stored without a vector, since the embedder failed: words find it, upkeep embeds it later
unchanged      nothing new was stored: the key, id, version or text existed already
updated, forgotten, restored: the next version of a memory; the previous version is kept.
A receipt means that the write is on disk; its status is one of these. A retry with the same key returns the first
memory, unless that one has expired. remember_many stores all drafts or none. superseded is the memory that recalls no
longer return; the warning says how to bring it back. Storing the same text again is unchanged; duplicate=True stores
it.""",
    "fields": """\
kind         fact, rule, decision, feedback, context, bootstrap, or a name of your own
importance   0 to 1; estimated from the text unless given
weight       confidence, 0.1 to 1; a superseded memory drops to 0.1
tags         names to filter by
entities     names that link memories; found in the text unless given
fact_key     identity of the fact, such as user.theme; found in plain sentences unless given; the newest memory holds
relations    what it is to older memories: replaces, repeats or adds to them; each with probability, reason and author
replaced_by  the live memory that replaces this one
supersedes   id of the memory that this one replaces
ttl          seconds, or text such as 24h, 7d or 2w; afterwards the memory has expired, and only restore returns it
tier         working, episodic or semantic
key          idempotency key: a retry with the same key stores nothing new
metadata     JSON values, returned as they are
sources      of a reflection: ids of the memories that it summarises; reflection: of a source, the reflection's id""",
}
"""Topic -> the text that `help` returns."""
