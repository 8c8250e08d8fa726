// Compiled, never run: each line below a `@ts-expect-error` must not compile.
import type { Memory, Receipt, Salience, operations } from "salience-client";

type Camel<S> = S extends `${infer A}_${infer B}` ? `${A}${Capitalize<Camel<B>>}` : S;
type Missing = Exclude<Camel<Exclude<keyof operations, "alive" | "ready" | "profiles">>, keyof Salience>;
const everyVerbIsAMethod: [Missing] extends [never] ? true : Missing = true;

export async function calls(memory: Salience): Promise<unknown> {
  const receipt: Receipt = await memory.remember("text", { user_id: "alice", ttl: "7d", metadata: { a: [1] } });
  const isStored: boolean = receipt.status === "created";
  const detail: number = (await memory.recall("query")).hits[0]!.score_detail.parts["bm25"]!.contribution;
  const memories: Memory[] = (await memory.list({ tags: ["a"], limit: 3 })).memories;
  const superseded: string | null = receipt.superseded;
  await memory.update("id", { fact_key: null, ttl: null });
  await memory.recall("query", { profile: { toml: "..." }, weights: { bm25: 1 } });

  // @ts-expect-error: the text is required
  await memory.remember();
  // @ts-expect-error: an unknown field
  await memory.remember("text", { userId: "alice" });
  // @ts-expect-error: a wrong type
  await memory.remember("text", { importance: "high" });
  // @ts-expect-error: no such tier
  await memory.remember("text", { tier: "eternal" });
  // @ts-expect-error: the text is given already
  await memory.remember("text", { content: "other" });
  // @ts-expect-error: an unknown field of a draft
  await memory.rememberMany([{ content: "text", usr: "alice" }]);
  // @ts-expect-error: a draft needs a text
  await memory.rememberMany([{ kind: "fact" }]);
  // @ts-expect-error: a conversation needs its session
  await memory.ingest([{ role: "user", content: "text" }], { user_id: "alice" });
  // @ts-expect-error: a change cannot be null, except for fact_key and ttl
  await memory.update("id", { importance: null });
  // @ts-expect-error: an unknown field of a change
  await memory.update("id", { version: 3 });
  // @ts-expect-error: erase needs ids, or a coordinate
  await memory.erase({ dry_run: true });
  // @ts-expect-error: a coordinate of erase cannot be null
  await memory.erase({ user_id: null });
  // @ts-expect-error: no such profile
  await memory.recall("query", { profile: "best" });
  // @ts-expect-error: an explanation needs a memory
  await memory.explain("query", { user_id: "alice" });
  // @ts-expect-error: no such option of a call
  await memory.stats({}, { timeout: 5 });
  // @ts-expect-error: a hit holds its memory
  (await memory.recall("query")).hits[0]?.content;
  // @ts-expect-error: no such status
  receipt.status === "deleted";
  // @ts-expect-error: may be null
  const text: string = receipt.warning;
  // @ts-expect-error: no such topic
  await memory.help("everything");

  return [everyVerbIsAMethod, isStored, detail, memories, superseded, text];
}
