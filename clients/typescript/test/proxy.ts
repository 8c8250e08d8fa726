import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/**
 * A fault that one request meets with. `lost`, `cut`, `late` and `gateway` happen once the server has done the request;
 * the others happen in its place.
 */
export type Fault = "lost" | "cut" | "late" | "gateway" | "closed" | "busy" | "limited" | "redirect" | "page";

/** A proxy in front of a server. The first requests meet with `faults`, in order; all others go through. */
export class Proxy {
  url = "";
  faults: Fault[] = [];
  /** Idempotency keys of the requests so far; undefined for none. */
  keys: (string | undefined)[] = [];
  /** Milliseconds at which each request arrived. */
  times: number[] = [];
  onRequest = () => {};
  readonly #server: Server;
  readonly #target: URL;

  constructor(target: string) {
    this.#target = new URL(target);
    this.#server = createServer((incoming, outgoing) => void this.#handle(incoming, outgoing));
  }

  async listen(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    return this;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #handle(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    this.keys.push(incoming.headers["idempotency-key"] as string | undefined);
    this.times.push(performance.now());
    this.onRequest();
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) {
      chunks.push(chunk as Buffer);
    }
    const fault = this.faults.shift();
    switch (fault) {
      case "closed":
        outgoing.destroy();
        return;
      case "busy":
        problem(outgoing, 503, "busy");
        return;
      case "limited":
        problem(outgoing, 429, "limit", { retry_after: 1 });
        return;
      case "redirect":
        outgoing.writeHead(302, { Location: "http://127.0.0.1:1/" }).end();
        return;
      case "page":
        outgoing.writeHead(200, { "Content-Type": "text/html" }).end("<html>");
        return;
    }
    const { status, headers, body } = await this.#forward(incoming, Buffer.concat(chunks));
    switch (fault) {
      case "lost":
        outgoing.destroy();
        return;
      case "cut":
        outgoing.writeHead(status, headers);
        outgoing.write(body.subarray(0, body.length / 2), () => outgoing.destroy());
        return;
      case "late":
        return; // never
      case "gateway":
        outgoing.writeHead(503, { "Content-Type": "text/html", "Retry-After": "0" }).end("<html>");
        return;
    }
    outgoing.writeHead(status, headers).end(body);
  }

  #forward(incoming: IncomingMessage, body: Buffer) {
    return new Promise<{ status: number; headers: IncomingMessage["headers"]; body: Buffer }>((resolve, reject) => {
      const { method, url: path, headers } = incoming;
      const { hostname, port } = this.#target;
      const sent = request({ hostname, port, path, method, headers: { ...headers, host: this.#target.host } });
      sent.on("error", reject);
      sent.on("response", async (response) => {
        const chunks: Buffer[] = [];
        for await (const chunk of response) {
          chunks.push(chunk as Buffer);
        }
        resolve({ status: response.statusCode!, headers: response.headers, body: Buffer.concat(chunks) });
      });
      sent.end(body);
    });
  }
}

function problem(outgoing: ServerResponse, status: number, code: string, more: object = {}): void {
  const type = `urn:salience:problem:${code}`;
  const headers = { "Content-Type": "application/problem+json", "Retry-After": status === 429 ? "1" : "0" };
  outgoing.writeHead(status, headers).end(JSON.stringify({ type, title: "-", status, detail: "it failed", ...more }));
}
