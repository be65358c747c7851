// The state of the connection to spectrace's server, and when to try again.

const FIRST_DELAY_MS = 1000;
const LONGEST_DELAY_MS = 10_000;

/** The server sends its state twice a second; a silence of this length means that it is gone. */
export const SILENCE_MS = 6000;

/** Times are UNIX ms by the browser's clock. */
export type Connection =
  | { readonly kind: "connecting" }
  | { readonly kind: "open"; readonly heardMs: number }
  | {
      readonly kind: "lost";
      readonly sinceMs: number;
      readonly retryMs: number;
      readonly failures: number;
    };

/** Before the first try. */
export const CONNECTING: Connection = { kind: "connecting" };

/** Something arrived. */
export function heard(nowMs: number): Connection {
  return { kind: "open", heardMs: nowMs };
}

/** A try failed, or an open connection broke. The time of the loss stays that of the first. */
export function failed(before: Connection, nowMs: number): Connection {
  const failures = before.kind === "lost" ? before.failures + 1 : 1;
  return {
    kind: "lost",
    sinceMs: before.kind === "lost" ? before.sinceMs : nowMs,
    retryMs: nowMs + Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** (failures - 1)),
    failures,
  };
}

/** Whether an open connection has been silent for too long. */
export function isSilent(connection: Connection, nowMs: number): boolean {
  return connection.kind === "open" && nowMs - connection.heardMs > SILENCE_MS;
}

/** Whole seconds until the next try, 0 while it runs. */
export function secondsToRetry(connection: Connection, nowMs: number): number {
  return connection.kind === "lost"
    ? Math.max(0, Math.ceil((connection.retryMs - nowMs) / 1000))
    : 0;
}
