import {
  BusyError,
  InputError,
  LimitError,
  NotFoundError,
  type SalienceError,
  ServerError,
  StoreError,
  UnsettledError,
  fromProblem,
} from "./errors.js";
import type {
  ActivityDay,
  ChangesPage,
  ConsolidateReport,
  ConsolidateRequest,
  Context,
  ContextRequest,
  DecayCurve,
  DismissRequest,
  DraftLine,
  EndSessionRequest,
  EraseRequest,
  Erased,
  ExplainRequest,
  Explanation,
  Facets,
  GraphRecallRequest,
  IngestRequest,
  Memory,
  Message,
  Page,
  Problem,
  Profiles,
  Recall,
  RecallLogPage,
  RecallManyRequest,
  RecallRequest,
  Receipt,
  ReflectReport,
  RememberManyRequest,
  RememberRequest,
  RestoreRequest,
  ReviewPage,
  Scores,
  ScoresRequest,
  SessionReport,
  SessionsPage,
  Stats,
  TransferReport,
  UpdateRequest,
  UpkeepReport,
  UpkeepRequest,
  Version,
  operations,
} from "./schema.js";
import { VERBS, type Verb } from "./verbs.js";

/** Options of a client. */
export interface Options {
  /** `sal_...`, or an OAuth access token. */
  apiKey?: string;
  /** Milliseconds for one attempt; default 30,000. Verbs that may scan a whole store have an hour. */
  timeoutMs?: number;
  /** Maximum number of retries of a call; default 3. */
  retries?: number;
  /** Accept http to other machines, which sends key and memories unencrypted. */
  allowHttp?: boolean;
  /** Function to use in place of the global `fetch`. */
  fetch?: typeof fetch;
}

/** Options of one call. */
export interface CallOptions {
  /** Ends the call, its attempts and its pauses. A write may have been done by then. */
  signal?: AbortSignal;
  /** Milliseconds for one attempt, for this call. */
  timeoutMs?: number;
}

type Name = keyof typeof VERBS;
type Json = "application/json";
type Contents<T> = NonNullable<T> extends { content: { [J in Json]: infer C } } ? C : never;
type Query<N extends Name> = NonNullable<operations[N]["parameters"]["query"]>;
type Path<N extends Name> = NonNullable<operations[N]["parameters"]["path"]>;
type Body<N extends Name> = Contents<operations[N]["requestBody"]>;
type Result<N extends Name> = Contents<operations[N]["responses"][200]>;
type OrNone<T> = [T] extends [never] ? object : T;
type Arguments<N extends Name> = OrNone<Query<N>> & OrNone<Path<N>> & OrNone<Body<N>>;

/** An attempt that failed. */
interface Failure {
  error: SalienceError;
  /** Whether to try again, after at least `wait` milliseconds. */
  retry: boolean;
  wait?: number;
  /** Whether a response was lost, so that the outcome is unknown. */
  lost?: boolean;
}

type Answer = { response: Response; data?: unknown } | Failure;

const TIMEOUT = 30_000;
const LONG_TIMEOUT = 3_600_000;
/** Milliseconds to wait for a response after the deadline of its recall. */
const GRACE = 5_000;
/** Longest accepted `Retry-After`, milliseconds. */
const RETRY_AFTER_LIMIT = 30_000;
const NDJSON = "application/x-ndjson";
const PROBLEM = "application/problem+json";
/** Codes of Node.js for failures before anything was sent. */
const NOT_SENT = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"];
const LOST =
  "Stored. The server's first response was lost, and with it any conflicts, superseded memory and vector status.";
const CHECK_URL = "Check the URL, the network and the server.";

/**
 * Memory on a Salience server, with the verbs of the Python package.
 *
 * Arguments and results have the names of the REST API, in snake_case. Every verb rejects with the errors of this
 * package: `InputError` for an invalid value, `NotFoundError` for an id that is not visible, `AccessError`,
 * `ForbiddenError`, `LimitError`, `ServerError` if the server cannot be reached, and `UnsettledError` if the outcome of
 * a write is unknown.
 */
export class Salience {
  /** URL of the server, with a slash at its end. */
  readonly url: string;
  readonly #headers: Record<string, string>;
  readonly #options: Options;

  /**
   * Makes a client; connects at the first call.
   *
   * @param url https, or http to this machine
   */
  constructor(url: string | URL, options: Options = {}) {
    this.url = serverUrl(url, options.allowHttp ?? false);
    this.#headers = { Accept: "application/json", ...authorization(options.apiKey) };
    this.#options = options;
  }

  /** Stores one memory and returns its receipt, which lists memories that it may contradict. */
  async remember(
    content: string,
    fields: Omit<RememberRequest, "content"> = {},
    options: CallOptions = {},
  ): Promise<Receipt> {
    const { data, again } = await this.#send("remember", { ...fields, content }, options);
    return again(data as Receipt);
  }

  /** Stores several memories, all or none, and returns a receipt for each, in order. */
  async rememberMany(
    drafts: DraftLine[],
    scope: Omit<RememberManyRequest, "drafts"> = {},
    options: CallOptions = {},
  ): Promise<Receipt[]> {
    const { data, again } = await this.#send("remember", { ...scope, drafts }, options);
    return (data as Result<"ingest">).receipts.map(again);
  }

  /** Stores a conversation turn by turn, verbatim, and returns a receipt for each turn, in order. */
  async ingest(
    messages: Message[],
    scope: Omit<IngestRequest, "messages">,
    options: CallOptions = {},
  ): Promise<Receipt[]> {
    const { data, again } = await this.#send("ingest", { ...scope, messages }, options);
    return data.receipts.map(again);
  }

  /** Changes a memory and returns its receipt. Fields that are left out stay; earlier versions are kept. */
  async update(id: string, changes: UpdateRequest, options: CallOptions = {}): Promise<Receipt> {
    return (await this.#send("update", { ...changes, id }, options)).data;
  }

  /** Removes a memory from every recall and returns its receipt; `restore` undoes it. */
  async forget(id: string, fields: Query<"forget"> = {}, options: CallOptions = {}): Promise<Receipt> {
    return (await this.#send("forget", { ...fields, id }, options)).data;
  }

  /** Makes an older version of a memory its next one, or a forgotten memory live again, and returns the receipt. */
  async restore(id: string, fields: RestoreRequest = {}, options: CallOptions = {}): Promise<Receipt> {
    return (await this.#send("restore", { ...fields, id }, options)).data;
  }

  /** Keeps a pair of memories, or a stale reflection, out of `review`, and returns the receipt. */
  async dismiss(id: string, fields: DismissRequest = {}, options: CallOptions = {}): Promise<Receipt> {
    return (await this.#send("dismiss", { ...fields, id }, options)).data;
  }

  /** Deletes memories for good, by id or by scope, and returns how many. */
  async erase(what: EraseRequest, options: CallOptions = {}): Promise<Erased> {
    return (await this.#send("erase", what, options)).data;
  }

  /** Returns the memories that answer a query, best first, with the parts of each score. */
  async recall(query: string, fields: Omit<RecallRequest, "query"> = {}, options: CallOptions = {}): Promise<Recall> {
    return (await this.#send("recall", { ...fields, query }, options)).data as Recall;
  }

  /** Returns the answer to each of up to 32 queries, in order. */
  async recallMany(
    queries: string[],
    fields: Omit<RecallManyRequest, "queries"> = {},
    options: CallOptions = {},
  ): Promise<Recall[]> {
    const { data } = await this.#send("recall", { ...fields, queries }, options);
    return (data as { recalls: Recall[] }).recalls;
  }

  /** Recalls by similarity and by distance to the entities in the query. */
  async graphRecall(
    query: string,
    fields: Omit<GraphRecallRequest, "query"> = {},
    options: CallOptions = {},
  ): Promise<Recall> {
    return (await this.#send("graph_recall", { ...fields, query }, options)).data;
  }

  /** Returns the memories for a query as text for a prompt, within a budget of tokens. */
  async context(
    query: string,
    fields: Omit<ContextRequest, "query"> = {},
    options: CallOptions = {},
  ): Promise<Context> {
    return (await this.#send("context", { ...fields, query }, options)).data;
  }

  /** Explains why a memory is, or is not, in the answer to a query. */
  async explain(
    query: string,
    memoryId: string,
    fields: Omit<ExplainRequest, "query" | "memory_id"> = {},
    options: CallOptions = {},
  ): Promise<Explanation> {
    return (await this.#send("explain", { ...fields, query, memory_id: memoryId }, options)).data;
  }

  /** Returns the scores of all memories that a recall ranks, and the best ones not returned. */
  async scores(
    query: string,
    fields: Omit<ScoresRequest, "query"> = {},
    options: CallOptions = {},
  ): Promise<Scores> {
    return (await this.#send("scores", { ...fields, query }, options)).data;
  }

  /** Returns how the scores of memories fade with age. */
  async decay(
    ids: readonly string[],
    filter: Omit<Query<"decay">, "ids"> = {},
    options: CallOptions = {},
  ): Promise<DecayCurve[]> {
    return (await this.#send("decay", { ...filter, ids: [...ids] }, options)).data.curves;
  }

  /** Returns the ranking profiles with their signals, weights, stages and decay. */
  async profiles(options: CallOptions = {}): Promise<Profiles> {
    return (await this.#send("profiles", {}, options)).data;
  }

  /** Returns one memory. */
  async get(id: string, scope: Query<"get"> = {}, options: CallOptions = {}): Promise<Memory> {
    return (await this.#send("get", { ...scope, id }, options)).data;
  }

  /** Returns one page of memories in the order of storing, and the cursor of the next. */
  async list(filter: Query<"list"> = {}, options: CallOptions = {}): Promise<Page> {
    return (await this.#send("list", filter, options)).data;
  }

  /** Yields the memories of all pages of `list`. */
  async *listAll(filter: Query<"list"> = {}, options: CallOptions = {}): AsyncGenerator<Memory, void> {
    let page = await this.list(filter, options);
    yield* page.memories;
    while (page.cursor !== null) {
      page = await this.list({ ...filter, cursor: page.cursor }, options);
      yield* page.memories;
    }
  }

  /** Counts the memories that `list` pages through, by the values of their fields. */
  async facets(filter: Query<"facets"> = {}, options: CallOptions = {}): Promise<Facets> {
    return (await this.#send("facets", filter, options)).data;
  }

  /** Returns one page of the sessions, the latest first, and the cursor of the next. */
  async sessions(filter: Query<"sessions"> = {}, options: CallOptions = {}): Promise<SessionsPage> {
    return (await this.#send("sessions", filter, options)).data;
  }

  /** Counts the visible memories. */
  async stats(scope: Query<"stats"> = {}, options: CallOptions = {}): Promise<Stats> {
    return (await this.#send("stats", scope, options)).data;
  }

  /** Returns one page of the recall log, newest first, and the cursor of the next. */
  async recalls(filter: Query<"recalls"> = {}, options: CallOptions = {}): Promise<RecallLogPage> {
    return (await this.#send("recalls", filter, options)).data;
  }

  /** Returns the help text of a topic, or the list of topics. */
  async help(topic?: Query<"help">["topic"], options: CallOptions = {}): Promise<string> {
    return (await this.#send("help", topic === undefined ? {} : { topic }, options)).data.text;
  }

  /** Returns every version of a memory, oldest first. */
  async history(id: string, scope: Query<"history"> = {}, options: CallOptions = {}): Promise<Version[]> {
    return (await this.#send("history", { ...scope, id }, options)).data.versions;
  }

  /** Returns problems to look at: contradictions, duplicates, updates, stale and pending memories. */
  async review(filter: Query<"review"> = {}, options: CallOptions = {}): Promise<ReviewPage> {
    return (await this.#send("review", filter, options)).data;
  }

  /** Returns one page of the changes of memories, newest first, and the cursor of the next. */
  async changes(filter: Query<"changes"> = {}, options: CallOptions = {}): Promise<ChangesPage> {
    return (await this.#send("changes", filter, options)).data;
  }

  /** Counts the memories created, changed, forgotten and recalled on each day. */
  async activity(filter: Query<"activity"> = {}, options: CallOptions = {}): Promise<ActivityDay[]> {
    return (await this.#send("activity", filter, options)).data.days;
  }

  /** Ends a session and promotes its memories. */
  async endSession(
    sessionId: string,
    scope: EndSessionRequest = {},
    options: CallOptions = {},
  ): Promise<SessionReport> {
    return (await this.#send("end_session", { ...scope, session_id: sessionId }, options)).data;
  }

  /** Promotes memories to the tiers that they qualify for. */
  async consolidate(fields: ConsolidateRequest = {}, options: CallOptions = {}): Promise<ConsolidateReport> {
    return (await this.#send("consolidate", fields, options)).data;
  }

  /** Summarises related memories in a new memory that refers to them. */
  async reflect(fields: ConsolidateRequest = {}, options: CallOptions = {}): Promise<ReflectReport> {
    return (await this.#send("reflect", fields, options)).data;
  }

  /** Runs the maintenance that is due. */
  async upkeep(fields: UpkeepRequest = {}, options: CallOptions = {}): Promise<UpkeepReport> {
    return (await this.#send("upkeep", fields, options)).data;
  }

  /** Yields an export line by line: a header, then a line of JSON for each version of each memory. */
  async *export(scope: Query<"export"> = {}, options: CallOptions = {}): AsyncGenerator<string, void> {
    const { response } = await this.#send("export", scope, options);
    let rest = "";
    let count = 0;
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    try {
      for (let read = await reader.read(); !read.done; read = await reader.read()) {
        const lines = (rest + read.value).split("\n");
        rest = lines.pop()!;
        count += lines.length;
        yield* lines;
      }
    } catch (error) {
      options.signal?.throwIfAborted();
      throw this.#unreachable(error);
    } finally {
      await reader.cancel().catch(() => {});
    }
    if (rest !== "" || count === 0) {
      throw new ServerError("export: the connection broke before the end of the export. Export again.");
    }
  }

  /** Stores an export, drafts as lines of JSON, or (`source`) another system's export, and returns the counts. */
  async import(
    data: string | Blob,
    fields: Query<"import_"> = {},
    options: CallOptions = {},
  ): Promise<TransferReport> {
    return (await this.#send("import_", fields, options, data)).data;
  }

  /**
   * Sends a verb until it succeeds or no retry is left. Returns its result, its response, and a function that restores
   * the receipt of an earlier attempt.
   */
  async #send<N extends Name>(name: N, args: Arguments<N>, options: CallOptions, payload?: string | Blob) {
    const verb: Verb = VERBS[name];
    const { dry_run, key, deadline_ms } = args as Partial<RecallRequest & RememberRequest>;
    const writes = verb.writes === true && dry_run !== true;
    const repeatable = !writes || verb.keyed === true;
    const generatesKey = verb.keyed === true && (key ?? null) === null;
    const request = this.#request(name, verb, { ...args }, payload);
    if (generatesKey) {
      request.headers.set("Idempotency-Key", `once:${randomHex()}`);
    }
    const patience = options.timeoutMs ?? (verb.long ? LONG_TIMEOUT : (this.#options.timeoutMs ?? TIMEOUT));
    const limit = typeof deadline_ms === "number" ? deadline_ms + GRACE : Infinity;
    const end = performance.now() + limit;
    let lost = false;
    for (let attempt = 0; ; attempt++) {
      const answer = await this.#attempt(request, Math.min(patience, limit), name === "export", options.signal);
      if ("response" in answer) {
        const again = (receipt: Receipt) => (attempt > 0 && generatesKey ? firstReceipt(receipt) : receipt);
        return { data: answer.data as Result<N>, response: answer.response, again };
      }
      lost ||= answer.lost === true;
      const wait = Math.max(Math.min(100 * 2 ** attempt, 5_000) + 200 * Math.random(), answer.wait ?? 0);
      const isLast = attempt >= (this.#options.retries ?? 3) || performance.now() + wait > end;
      if (isLast || !answer.retry || (answer.lost && !repeatable)) {
        throw lost && writes ? unsettled(name, new URL(this.url).host, repeatable) : answer.error;
      }
      await pause(wait, options.signal);
    }
  }

  /** Returns the URL, method, headers and body of a verb. */
  #request(name: Name, verb: Verb, args: Record<string, unknown>, payload?: string | Blob) {
    const path = verb.path.replace(/\{(\w+)\}/, (_, field: string) => {
      const value = args[field];
      delete args[field];
      return segment(field, value);
    });
    const url = new URL(path.slice(1), this.url);
    const headers = new Headers(this.#headers);
    if (name === "import_") {
      headers.set("Content-Type", "source" in args ? "application/octet-stream" : NDJSON);
    } else if (verb.method === "POST" || verb.method === "PATCH") {
      headers.set("Content-Type", "application/json");
      return { url, method: verb.method, headers, body: JSON.stringify(args) };
    }
    for (const [field, value] of Object.entries(args)) {
      for (const item of Array.isArray(value) ? value : [value]) {
        if (item !== undefined && item !== null) {
          url.searchParams.append(field, typeof item === "object" ? JSON.stringify(item) : String(item));
        }
      }
    }
    return { url, method: verb.method, headers, body: payload ?? null };
  }

  /** Sends a request once. Rejects only if the caller aborts it. */
  async #attempt(
    request: RequestInit & { url: URL },
    timeoutMs: number,
    isStream: boolean,
    signal?: AbortSignal,
  ): Promise<Answer> {
    const timeout = AbortSignal.timeout(timeoutMs);
    const send = this.#options.fetch ?? fetch;
    try {
      const response = await send(request.url, {
        ...request,
        redirect: "manual",
        signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal]),
      });
      if (response.ok && isStream) {
        return { response };
      }
      return this.#answer(response, await response.text());
    } catch (error) {
      signal?.throwIfAborted();
      return { error: this.#unreachable(error), retry: true, lost: !NOT_SENT.includes(codeOf(error)) };
    }
  }

  /** Returns the result or the failure in a response. */
  #answer(response: Response, text: string): Answer {
    const host = new URL(this.url).host;
    const wait = retryAfter(response.headers);
    const { status } = response;
    const media = response.headers.get("Content-Type")?.split(";")[0]?.trim().toLowerCase() || "no JSON";
    if (response.ok || media === PROBLEM) {
      if (media !== "application/json" && media !== PROBLEM) {
        const error = new ServerError(`${host} answered ${media}, not a Salience response. ${CHECK_URL}`);
        return { error, retry: false };
      }
      let data: unknown;
      try {
        data = JSON.parse(text);
      } catch {
        const error = new ServerError(`${host} answered JSON that is cut off. ${CHECK_URL}`);
        return { error, retry: true, lost: true };
      }
      if (response.ok) {
        return { response, data };
      }
      const error = fromProblem(data as Problem);
      const isBusy = error instanceof BusyError || error.constructor === StoreError;
      const isLimited = error instanceof LimitError && error.retry_after !== undefined;
      const lost = error instanceof UnsettledError;
      return { error, retry: isBusy || isLimited || lost, wait, lost };
    }
    const says = status < 400 ? "a redirect: use the URL that it points to" : `status ${status}`;
    const message = `${host} answered ${says}. This is not a response of a Salience server. ${CHECK_URL}`;
    const lost = [502, 503, 504].includes(status); // a proxy cannot know whether the server did the work
    return { error: new ServerError(message), retry: lost || status === 429, wait, lost };
  }

  #unreachable(error: unknown): ServerError {
    return new ServerError(`${new URL(this.url).host} did not answer (${codeOf(error)}). ${CHECK_URL}`);
  }
}

/** Returns the URL of a server, with a slash at its end. */
function serverUrl(given: string | URL, allowHttp: boolean): string {
  let url: URL | undefined;
  try {
    url = new URL(given);
  } catch {}
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash) {
    const remedy = "Give https://HOST[:PORT][/PATH], and the key as apiKey.";
    throw invalid("url", "", "is not the URL of a server", remedy);
  }
  const isLoopback = /^(.*\.)?localhost$|^127\.[\d.]+$|^\[::1\]$/.test(url.hostname);
  if (url.protocol === "http:" && !isLoopback && !allowHttp) {
    const remedy = "Use https. Where the network is trusted, set allowHttp.";
    throw invalid("url", url.host, `http://${url.host} would be sent unencrypted`, remedy);
  }
  return url.href.replace(/\/*$/, "/");
}

function authorization(apiKey: string | undefined): Record<string, string> {
  if (apiKey === undefined) {
    return {};
  }
  if (!/^[!-~]+$/.test(apiKey)) {
    throw invalid("apiKey", "***", "is not a key", "Give the key as `salience keys create` printed it.");
  }
  return { Authorization: `Bearer ${apiKey}` };
}

function invalid(field: string, value: string, problem: string, remedy: string): InputError {
  return new InputError(`${field} ${problem}. ${remedy}`, { field, value, problem, remedy });
}

/** Returns an argument as a path segment. Dots alone would change the path; no id has dots or slashes. */
function segment(field: string, value: unknown): string {
  const text = String(value ?? "");
  if (field === "id" && /[./]/.test(text)) {
    const message = `id: no memory '${text.slice(0, 120)}' is visible in this scope. Check the id and the scope.`;
    throw new NotFoundError(message, { id: text });
  }
  if (/^\.*$/.test(text)) {
    const problem = text === "" ? "is empty" : `is '${text}'`;
    throw invalid(field, text, problem, text === "" ? "Give a value." : "Give a name with more than dots.");
  }
  return encodeURIComponent(text);
}

/** Returns the receipt of the attempt that stored the memory, as far as it can be reconstructed. */
function firstReceipt(receipt: Receipt): Receipt {
  if (receipt.status !== "unchanged" || receipt.warning || receipt.memory.key !== null) {
    return receipt; // this attempt stored it
  }
  const superseded = receipt.memory.supersedes;
  return { ...receipt, status: superseded === null ? "created" : "superseded", superseded, warning: LOST };
}

function unsettled(name: string, host: string, isKeyed: boolean): UnsettledError {
  const remedy = isKeyed
    ? "Check before you retry, or pass your own idempotency key (key), so that it is done once."
    : "Check before you retry; a second call is safe, but its report describes the second call.";
  return new UnsettledError(`${name}: the response of ${host} was lost; the write may have been done. ${remedy}`);
}

/** Returns the wait of the header `Retry-After`, in milliseconds; a date counts from the response's own. */
function retryAfter(headers: Headers): number {
  const value = headers.get("Retry-After") ?? "";
  const seconds = value === "" ? 0 : Number(value);
  const wait = Number.isNaN(seconds) ? Date.parse(value) - Date.parse(headers.get("Date") ?? "") : seconds * 1000;
  return Number.isNaN(wait) ? 0 : Math.min(Math.max(wait, 0), RETRY_AFTER_LIMIT);
}

/** Returns the code of a network error in Node.js, or the name of the error. */
function codeOf(error: unknown): string {
  const { name, cause } = error as { name?: string; cause?: { code?: string } };
  return cause?.code ?? name ?? "unknown error";
}

function randomHex(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", abort, { once: true });
  });
}
