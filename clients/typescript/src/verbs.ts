// Written by `make client` from the code; do not edit.
import type { operations, paths } from "./schema.js";

/** A verb, and what a client must know to send it again. */
export interface Verb {
  method: "GET" | "POST" | "PATCH" | "DELETE";
  path: keyof paths;
  /** Whether it writes; a write that is not `keyed` is not repeated after a lost response. */
  writes?: boolean;
  /** Whether it takes an idempotency key. */
  keyed?: boolean;
  /** Whether it may scan a whole store. */
  long?: boolean;
}

/** The operations of the OpenAPI document that are verbs. */
export const VERBS = {
  remember: { method: "POST", path: "/v1/memories", writes: true, keyed: true },
  ingest: { method: "POST", path: "/v1/ingest", writes: true, keyed: true },
  update: { method: "PATCH", path: "/v1/memory/{id}", writes: true, keyed: true },
  forget: { method: "DELETE", path: "/v1/memory/{id}", writes: true, keyed: true },
  restore: { method: "POST", path: "/v1/memory/{id}/restore", writes: true, keyed: true },
  dismiss: { method: "POST", path: "/v1/memory/{id}/dismiss", writes: true },
  erase: { method: "POST", path: "/v1/erase", writes: true, long: true },
  recall: { method: "POST", path: "/v1/recall" },
  graph_recall: { method: "POST", path: "/v1/graphrag" },
  explain: { method: "POST", path: "/v1/explain" },
  scores: { method: "POST", path: "/v1/scores" },
  decay: { method: "GET", path: "/v1/decay" },
  profiles: { method: "GET", path: "/v1/profiles" },
  context: { method: "POST", path: "/v1/context" },
  list: { method: "GET", path: "/v1/memories" },
  facets: { method: "GET", path: "/v1/facets" },
  sessions: { method: "GET", path: "/v1/sessions" },
  get: { method: "GET", path: "/v1/memory/{id}" },
  stats: { method: "GET", path: "/v1/stats" },
  history: { method: "GET", path: "/v1/memory/{id}/history" },
  review: { method: "GET", path: "/v1/review" },
  changes: { method: "GET", path: "/v1/changes" },
  activity: { method: "GET", path: "/v1/activity" },
  recalls: { method: "GET", path: "/v1/recalls" },
  help: { method: "GET", path: "/v1/help" },
  end_session: { method: "POST", path: "/v1/sessions/{session_id}/end", writes: true, long: true },
  consolidate: { method: "POST", path: "/v1/consolidate", writes: true, long: true },
  reflect: { method: "POST", path: "/v1/reflect", writes: true, long: true },
  upkeep: { method: "POST", path: "/v1/upkeep", writes: true, long: true },
  export: { method: "GET", path: "/v1/export", long: true },
  import_: { method: "POST", path: "/v1/import", writes: true, long: true },
} satisfies Partial<Record<keyof operations, Verb>>;
