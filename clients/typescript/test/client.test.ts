// Needs a server at SALIENCE_URL, and its keys: SALIENCE_API_KEY (admin), ALICE_KEY and BOB_KEY (read and write, each
// bound to a user), READ_KEY.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, test, type TestContext } from "node:test";
import { inspect } from "node:util";

import {
  AccessError,
  ConflictError,
  ForbiddenError,
  ImportLineError,
  InputError,
  NotFoundError,
  ProfileError,
  Salience,
  SalienceError,
  ServerError,
  StaleError,
  UnsettledError,
  type Message,
  type Options,
} from "salience-client";

import { Proxy } from "./proxy.js";

const url = setting("SALIENCE_URL");
const apiKey = setting("SALIENCE_API_KEY");
const memory = new Salience(url, { apiKey });

function setting(name: string): string {
  const value = process.env[name];
  assert(value, `set ${name}`);
  return value;
}

/** Returns a scope that no other test uses. */
function someone(): { user_id: string } {
  return { user_id: randomUUID() };
}

/** Returns a proxy that lasts as long as a test, and a function from options to a client that goes through it. */
async function faulty(t: TestContext) {
  const proxy = await new Proxy(url).listen();
  t.after(() => proxy.close());
  return { proxy, through: (options: Options = {}) => new Salience(proxy.url, { apiKey, ...options }) };
}

async function contents(where: { user_id: string }): Promise<string[]> {
  const found = [];
  for await (const one of memory.listAll(where)) {
    found.push(one.content);
  }
  return found;
}

describe("the client", { concurrency: true }, () => {
  test("memories are written, found and explained", async () => {
    const me = someone();
    const metadata = { source: "chat", nested: { list: [1, null] } };
    const fields = { ...me, importance: 0.8, tags: ["lang"], metadata };
    const receipt = await memory.remember("Alice prefers Python for backend work", fields);
    assert.equal(receipt.status, "created");
    const { id } = receipt.memory;
    assert.deepEqual(receipt.memory.metadata, metadata);
    assert.deepEqual(receipt.memory.scope, { environment: "default", ...me });
    assert.equal(receipt.memory.key, null);

    const many = await memory.rememberMany(
      [{ content: "The launch is on 3 June", kind: "decision" }, { content: "Bob likes tea", key: "mine" }],
      me,
    );
    assert.deepEqual(many.map((one) => [one.status, one.memory.key]), [["created", null], ["created", "mine"]]);
    const messages: Message[] = [
      { role: "user", content: "I moved to Lisbon last week." },
      { role: "assistant", content: "How do you like it there?" },
    ];
    const turns = await memory.ingest(messages, { ...me, session_id: "monday/1" });
    assert.deepEqual(turns.map((one) => one.memory.speaker), ["user", "assistant"]);

    assert.deepEqual(await memory.get(id, me), receipt.memory);
    assert.deepEqual((await memory.list({ ...me, tags: ["lang", "lang"] })).memories.map((one) => one.id), [id]);
    const pages = await memory.list({ ...me, kinds: ["fact", "decision"], limit: 2 });
    assert.equal(pages.memories.length, 2);
    const listed = [];
    for await (const one of memory.listAll({ ...me, limit: 2 })) {
      listed.push(one.content);
    }
    assert.deepEqual(listed, [receipt, ...many, ...turns].map((one) => one.memory.content));

    const question = "What language does Alice prefer?";
    const recall = await memory.recall(question, { ...me, limit: 3 });
    assert.equal(recall.hits[0]?.memory.id, id);
    assert.equal(recall.hits[0].score_detail.final, recall.hits[0].score);
    const [one, other] = await memory.recallMany([question, "When is the launch?"], me);
    assert.equal(one?.hits[0]?.memory.id, id);
    assert.equal(other?.hits[0]?.memory.id, many[0]?.memory.id);
    assert.equal((await memory.graphRecall("Who likes Python?", { ...me, max_hops: 1 })).hits[0]?.memory.id, id);
    assert.match((await memory.context(question, { ...me, budget_tokens: 200 })).text, /prefers Python/);
    const explained = await memory.explain(question, id, me);
    assert.deepEqual([explained.id, explained.rank], [id, 1]);
    assert.equal((await memory.recalls({ ...me, memory_id: id })).recalls.at(-1)?.question, question);

    const changed = await memory.update(id, { ...me, importance: 0.9, tags: [], fact_key: null, reason: "said" });
    assert.deepEqual([changed.status, changed.memory.version, changed.memory.importance], ["updated", 2, 0.9]);
    assert.equal((await memory.forget(id, { ...me, if_version: 2 })).status, "forgotten");
    assert.deepEqual((await memory.restore(id, { ...me, version: 1 })).memory.tags, ["lang"]);
    const versions = await memory.history(id, me);
    assert.deepEqual(versions.map((each) => each.memory.change), ["create", "update", "forget", "restore"]);
    assert.equal((await memory.changes({ ...me, limit: 1 })).changes[0]?.memory.change, "restore");
    assert.equal((await memory.activity(me)).at(-1)?.created, 5);
    assert.equal((await memory.stats(me)).memories, 5);
  });

  test("a store is kept in order", async () => {
    const me = someone();
    const [old] = await memory.rememberMany([{ content: "Alice prefers tabs" }], me);
    const next = await memory.remember("Alice does not prefer tabs", me);
    assert.deepEqual(next.contradictions.map((one) => one.memory.id), [old?.memory.id]);
    const before = (await memory.review(me)).items.length;
    assert(before > 0);
    await memory.dismiss(next.memory.id, { ...me, other_id: old!.memory.id });
    assert.equal((await memory.review(me)).items.length, before - 1);

    await memory.ingest([{ role: "user", content: "I like trains." }], { ...me, session_id: "monday/1" });
    assert.equal((await memory.endSession("monday/1", me)).session_id, "monday/1");
    assert((await memory.consolidate({ ...me, dry_run: true })).examined >= 3);
    assert.equal((await memory.reflect({ ...me, dry_run: true })).dry_run, true);
    assert.equal((await memory.upkeep({ dry_run: true })).dry_run, true);
    assert.match(await memory.help(), /scope/);
    assert.match(await memory.help("scope"), /user_id/);

    const lines = [];
    for await (const line of memory.export(me)) {
      lines.push(line);
    }
    assert.equal(JSON.parse(lines[0]!).format, "salience");
    const own = lines.filter((line, index) => index === 0 || line.includes(me.user_id)); // the rest is shared
    assert.equal((await memory.import(own.join("\n"))).unchanged, 3);
    const drafts = new Blob(["Ünïcode", "two"].map((content) => JSON.stringify({ content }) + "\n"));
    assert.equal((await memory.import(drafts, me)).written, 2);
    const notes = await memory.import("- a note\n- another\n", { ...me, source: "markdown" });
    assert(notes.written > 0);

    const { erased, recalls, pending } = await memory.erase({ ids: [old!.memory.id], ...me });
    assert.deepEqual([erased, recalls, typeof pending], [1, 0, "boolean"]); // pending while other tests read the log
    const counted = await memory.erase({ ...me, dry_run: true });
    assert.equal((await memory.erase(me)).erased, counted.erased);
    assert.deepEqual(await contents(me), []);
  });

  test("two users do not see each other's memories", async () => {
    const alice = new Salience(url, { apiKey: setting("ALICE_KEY") });
    const bob = new Salience(url, { apiKey: setting("BOB_KEY") });
    const hers = (await alice.remember("The code of the safe is 1234")).memory;
    const his = (await bob.remember("The code of the safe is 9876")).memory;
    assert.deepEqual([hers.scope.user_id, his.scope.user_id], ["alice", "bob"]);
    for (const [self, own, others] of [[alice, hers, his], [bob, his, hers]] as const) {
      const { hits } = await self.recall("What is the code of the safe?");
      const ids = hits.map((hit) => hit.memory.id);
      assert(ids.includes(own.id) && !ids.includes(others.id));
      await assert.rejects(self.get(others.id), NotFoundError);
      await assert.rejects(self.forget(others.id), NotFoundError);
      await assert.rejects(self.get(others.id, { user_id: others.scope.user_id! }), ForbiddenError);
    }
  });

  test("errors have classes and name the field, the value and the remedy", async () => {
    const me = someone();
    const { id } = (await memory.remember("text", { ...me, key: "mine" })).memory;
    await assert.rejects(new Salience(url, { apiKey: "sal_000000000000_wrong" }).stats(), (error) => {
      assert(error instanceof AccessError && !(error instanceof ForbiddenError) && error instanceof SalienceError);
      assert.deepEqual([error.name, error.status], ["AccessError", 401]);
      return true;
    });
    await assert.rejects(new Salience(url).stats(), AccessError);
    await assert.rejects(new Salience(url, { apiKey: setting("READ_KEY") }).remember("no"), ForbiddenError);
    const drafts = [{ content: "fine" }, { content: "bad", importance: 1.5 }];
    await assert.rejects(memory.rememberMany(drafts, me), (error) => {
      assert(error instanceof InputError && error.status === 422);
      assert.deepEqual([error.field, error.value, error.problem], ["drafts[1].importance", "1.5", "is 1.5"]);
      assert.equal(error.message, `${error.field} ${error.problem}. ${error.remedy}`);
      return true;
    });
    // @ts-expect-error: JavaScript does not check names
    await assert.rejects(memory.recall("text", { user: "alice" }), { field: "user", problem: "is an unknown field" });
    await assert.rejects(memory.recall("text", { profile: { toml: "x" } }), ProfileError);
    await assert.rejects(memory.remember("other", { ...me, key: "mine" }), ConflictError);
    await assert.rejects(memory.update(id, { ...me, weight: 0.5, if_version: 9 }), StaleError);
    await assert.rejects(memory.get("0".repeat(32), me), { name: "NotFoundError", id: "0".repeat(32), field: "id" });
    await assert.rejects(memory.get("../stats", me), NotFoundError);
    await assert.rejects(memory.endSession("..", me), { name: "InputError", field: "session_id" });
    await assert.rejects(memory.import('{"content": "one"}\nnonsense\n', me), (error) => {
      return error instanceof ImportLineError && error.line === 2;
    });
    assert.deepEqual(await contents(me), ["text"]);
  });

  test("a URL or key that cannot be used is refused before anything is sent", () => {
    for (const wrong of ["", "agent.db", "ftp://host", "https://me:secret@host", "https://host?x=1"]) {
      assert.throws(() => new Salience(wrong), { field: "url", problem: "is not the URL of a server" });
    }
    assert.throws(() => new Salience("http://memory.example.org"), { field: "url", value: "memory.example.org" });
    assert.equal(new Salience("http://memory.example.org", { allowHttp: true }).url, "http://memory.example.org/");
    assert.equal(new Salience("https://example.org/memory").url, "https://example.org/memory/");
    assert.throws(() => new Salience(url, { apiKey: "two words" }), { field: "apiKey", value: "***" });
    assert.doesNotMatch(inspect(memory, { depth: null, showHidden: true }) + JSON.stringify(memory), /sal_/);
  });

  for (const faults of [["lost"], ["cut", "lost"], ["closed", "busy"], ["gateway"]] as const) {
    test(`each write happens once: ${faults.join(", then ")}`, async (t) => {
      const me = someone();
      const { proxy, through: connect } = await faulty(t);
      const through = connect();
      const meet = () => void (proxy.faults = [...faults]);
      meet();
      const first = await through.remember("one", me);
      meet();
      const many = await through.rememberMany([{ content: "two" }, { content: "three", key: "mine" }], me);
      meet();
      const turns = await through.ingest([{ role: "user", content: "said" }], { ...me, session_id: "s" });
      const receipts = [first, ...many, ...turns];
      const isLost = faults.some((fault) => !["busy", "closed"].includes(fault));
      const generated = receipts.filter((one) => one.memory.key === null);
      assert.deepEqual(generated.map((one) => one.status), ["created", "created", "created"]);
      assert.equal(first.warning?.startsWith("Stored. The server's first response was lost"), isLost || undefined);
      assert.deepEqual(await contents(me), ["one", "two", "three", "said"]);

      const { id } = first.memory;
      meet();
      assert.equal((await through.update(id, { ...me, importance: 0.9 })).memory.version, 2);
      meet();
      assert.equal((await through.forget(id, { ...me, reason: "done" })).status, "forgotten");
      meet();
      assert.equal((await through.restore(id, me)).memory.version, 4);
      const versions = await memory.history(id, me);
      assert.deepEqual(versions.map((one) => one.memory.change), ["create", "update", "forget", "restore"]);

      const attempts = faults.length + 1;
      assert.equal(proxy.keys.length, 6 * attempts);
      assert.equal(new Set(proxy.keys).size, 6); // one key for all attempts of a write
      assert(proxy.keys.every((key) => key?.startsWith("once:")));
    });
  }

  test("a write under the caller's key sends no other", async (t) => {
    const me = someone();
    const { proxy, through } = await faulty(t);
    proxy.faults = ["lost"];
    const receipt = await through().remember("text", { ...me, key: "mine" });
    assert.deepEqual([receipt.status, receipt.memory.key, receipt.warning], ["unchanged", "mine", null]);
    assert.deepEqual(proxy.keys, [undefined, undefined]);
  });

  test("reads are retried, and Retry-After is honoured", async (t) => {
    const me = someone();
    const { proxy, through } = await faulty(t);
    await memory.remember("text", me);
    proxy.faults = ["closed", "cut", "gateway"];
    assert.equal((await through().recall("text", me)).hits.length, 1);
    proxy.faults = ["limited"];
    proxy.times = [];
    assert.equal((await through().stats(me)).memories, 1);
    assert(proxy.times[1]! - proxy.times[0]! >= 990);
    proxy.faults = ["limited"];
    await assert.rejects(through({ retries: 0 }).stats(me), { name: "LimitError", status: 429, retry_after: 1 });
  });

  test("a write without an idempotency key is repeated only if nothing was done", async (t) => {
    const me = someone();
    const { proxy, through } = await faulty(t);
    await memory.remember("text", me);
    proxy.faults = ["lost"];
    await assert.rejects(through().erase(me), UnsettledError);
    assert.equal(proxy.times.length, 1);
    assert.deepEqual(await contents(me), []);
    proxy.faults = ["busy"];
    assert.equal((await through().erase(me)).erased, 0);
    proxy.faults = ["lost"];
    assert.equal((await through().erase({ ...me, dry_run: true })).erased, 0);
    assert.equal(proxy.times.length, 5);
  });

  test("the last error tells whether a write may have been done", async (t) => {
    const me = someone();
    const { proxy, through } = await faulty(t);
    proxy.faults = ["lost", "lost"];
    await assert.rejects(through({ retries: 1 }).remember("text", me), UnsettledError);
    proxy.faults = ["lost", "lost"];
    await assert.rejects(through({ retries: 1 }).recall("text", me), ServerError);
    for (const fault of ["redirect", "page"] as const) {
      proxy.faults = [fault];
      await assert.rejects(through().stats(me), { name: "ServerError", message: /a redirect|text\/html/ });
    }
    const closed = await new Proxy(url).listen();
    closed.close();
    const nobody = new Salience(closed.url, { retries: 1 });
    await assert.rejects(nobody.remember("text"), { name: "ServerError", message: /did not answer \(ECONNREFUSED\)/ });
  });

  test("a timeout ends an attempt", async (t) => {
    const me = someone();
    const { proxy, through } = await faulty(t);
    proxy.faults = ["late"];
    const receipt = await through({ timeoutMs: 1500 }).remember("text", me);
    assert.equal(receipt.status, "created");
    proxy.faults = ["late", "late"];
    const slow = through({ retries: 1 });
    await assert.rejects(slow.stats(me, { timeoutMs: 100 }), { name: "ServerError", message: /TimeoutError/ });
    proxy.faults = ["late"];
    await assert.rejects(through({ retries: 0, timeoutMs: 200 }).remember("more", me), UnsettledError);
  });

  test("the caller can abort a call, in an attempt and in a pause", async (t) => {
    const me = someone();
    const { proxy, through } = await faulty(t);
    await assert.rejects(through().stats(me, { signal: AbortSignal.abort() }), { name: "AbortError" });
    assert.equal(proxy.times.length, 0);
    for (const fault of ["late", "limited"] as const) {
      proxy.times = [];
      proxy.faults = [fault];
      const controller = new AbortController();
      proxy.onRequest = () => void setTimeout(() => controller.abort(new Error("enough")), 150);
      await assert.rejects(through().remember("text", me, { signal: controller.signal }), { message: "enough" });
      assert.equal(proxy.times.length, 1);
    }
  });

  test("an export that is cut off is an error", async (t) => {
    const me = someone();
    const { proxy, through } = await faulty(t);
    await memory.remember("text", me);
    proxy.faults = ["cut"];
    const lines: string[] = [];
    await assert.rejects(async () => {
      for await (const line of through().export(me)) {
        lines.push(line);
      }
    }, ServerError);
  });
});
