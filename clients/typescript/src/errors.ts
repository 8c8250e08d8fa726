import type { Problem } from "./schema.js";

type Details = Partial<Problem>;

/** Base of all errors of this package. The tree is that of the Python package. */
export class SalienceError extends Error {
  /** Status of the HTTP response; undefined for errors that the client found itself. */
  readonly status: number | undefined;

  constructor(message: string, details: Details = {}) {
    super(message);
    this.status = details.status;
  }

  override get name(): string {
    return this.constructor.name;
  }
}

/** An invalid value; the message is `FIELD PROBLEM. REMEDY`. */
export class InputError extends SalienceError {
  /** Name of the argument, such as `drafts[0].importance`. */
  readonly field: string;
  /** The given value, shortened; never the text of a memory. */
  readonly value: string;
  /** Predicate of the field, such as `is empty`. */
  readonly problem: string;
  /** Instruction to the caller. */
  readonly remedy: string;

  constructor(message: string, details: Details = {}) {
    super(message, details);
    this.field = details.field ?? "";
    this.value = details.value ?? "";
    this.problem = details.problem ?? "";
    this.remedy = details.remedy ?? "";
  }
}

/** The config file of the server cannot be read. */
export class ConfigError extends InputError {}

/** An invalid or unknown ranking profile. */
export class ProfileError extends InputError {}

/** An invalid line of an import. */
export class ImportLineError extends InputError {
  /** Number of the line, from 1. */
  readonly line: number;

  constructor(message: string, details: Details = {}) {
    super(message, details);
    this.line = details.line ?? 0;
  }
}

/** No memory of that id is visible; whether it exists elsewhere is not revealed. */
export class NotFoundError extends SalienceError {
  readonly id: string;
  /** Name of the argument that holds the id. */
  readonly field: string;

  constructor(message: string, details: Details = {}) {
    super(message, details);
    this.id = details.id ?? "";
    this.field = details.field ?? "id";
  }
}

/** The idempotency key or id belongs to something else. */
export class ConflictError extends SalienceError {}

/** The memory changed between read and write; nothing was written. */
export class StaleError extends ConflictError {}

/** Another process does this maintenance task. */
export class LeaseError extends ConflictError {}

/** Missing or invalid API key or token. */
export class AccessError extends SalienceError {}

/** The key is valid but does not allow this. */
export class ForbiddenError extends AccessError {}

/** A request or answer is too large, or there are too many requests. */
export class LimitError extends SalienceError {
  /** Seconds after which a retry can succeed; undefined: never. */
  readonly retry_after: number | undefined;

  constructor(message: string, details: Details = {}) {
    super(message, details);
    this.retry_after = details.retry_after;
  }
}

/** The embedding model failed. */
export class EmbedderError extends SalienceError {}

/** The server lacks an optional library. */
export class MissingExtraError extends EmbedderError {}

/** The reranker failed. */
export class RerankerError extends SalienceError {}

/** The summariser failed. */
export class SummariserError extends SalienceError {}

/** The judge failed. */
export class JudgeError extends SalienceError {}

/** The store cannot be opened, read or written. */
export class StoreError extends SalienceError {}

/** A row of the store cannot be read. */
export class DamagedError extends StoreError {}

/** The target of the server is no Salience store. */
export class NotAStoreError extends StoreError {}

/** The store cannot be written. */
export class ReadOnlyError extends StoreError {}

/** Another process held the write lock for longer than the busy timeout. */
export class BusyError extends StoreError {}

/** The response to a write was lost; the write may have been done. */
export class UnsettledError extends StoreError {}

/** The server cannot be reached, or its response is not from a Salience server. */
export class ServerError extends StoreError {}

/** The store was written by a newer version of Salience. */
export class VersionError extends StoreError {}

/** The store was written with another embedder or language. */
export class PinnedError extends StoreError {}

/** The store moved to another embedder while the server had it open. */
export class MovedError extends PinnedError {}

type Code = Problem["type"] extends infer T ? (T extends `urn:salience:problem:${infer C}` ? C : never) : never;

/** Every problem type of the OpenAPI document; the compiler reports a missing one. */
const CLASSES: Record<Code, typeof SalienceError> = {
  line: ImportLineError,
  config: ConfigError,
  profile: ProfileError,
  input: InputError,
  "not-found": NotFoundError,
  stale: StaleError,
  lease: LeaseError,
  conflict: ConflictError,
  forbidden: ForbiddenError,
  access: AccessError,
  limit: LimitError,
  "missing-extra": MissingExtraError,
  embedder: EmbedderError,
  reranker: RerankerError,
  summariser: SummariserError,
  judge: JudgeError,
  busy: BusyError,
  unsettled: UnsettledError,
  "read-only": ReadOnlyError,
  damaged: DamagedError,
  "not-a-store": NotAStoreError,
  version: VersionError,
  moved: MovedError,
  pinned: PinnedError,
  server: ServerError,
  store: StoreError,
  error: SalienceError,
};

/** Returns the error of problem details (RFC 9457); a `ServerError` for unknown types. */
export function fromProblem(problem: Details): SalienceError {
  const code = String(problem.type).replace("urn:salience:problem:", "");
  const found = Object.hasOwn(CLASSES, code) ? CLASSES[code as Code] : ServerError;
  return new found(problem.detail ?? "The server failed without a message.", problem);
}
