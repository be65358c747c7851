// What can be asked of the server that is traced from here, and what is said of it.
import { enumerate, whole } from "./format.ts";
import { list, maybeTexts, number, object } from "./json.ts";

/** A way of timing that can be asked for. */
export interface Choice {
  readonly mode: string;
  readonly what: string;
  /** What it costs the server. */
  readonly cost: string;
}

export const CHOICES: readonly Choice[] = [
  {
    mode: "device",
    what: "Events on the device: when it did each phase.",
    cost: "Nothing waits. A few events in each cycle.",
  },
  {
    mode: "host",
    what: "The host's clock at each boundary: when the CPU did it.",
    cost: "Nothing waits. One stamp for each boundary.",
  },
  {
    mode: "sync",
    what: "A synchronize at each boundary, then the host's clock.",
    cost: "The server is slower until you choose another: host and device work in turns.",
  },
  {
    mode: "off",
    what: "Whole cycles and no phases.",
    cost: "One stamp for each cycle.",
  },
];

/** At most one cycle in so many can be asked for. */
export const MOST_EVERY = 10_000;

/** What is recorded of each cycle, and of those that are left out. */
export const SAMPLING =
  "Of the others the number, the time, the tokens and the accepted drafts are added up: less to " +
  "record, to send on and to store. Every cycle in full is 1.";

/** Every how many cycles, as somebody typed it; null where that cannot be asked for. */
export function everyOf(typed: string): number | null {
  const every = /^\s*\d+\s*$/.test(typed) ? Number(typed) : 0;
  return every >= 1 && every <= MOST_EVERY ? every : null;
}

/** "every cycle", "1 cycle in 10" */
export function everyInWords(every: number): string {
  return every > 1 ? `1 cycle in ${whole(every)}` : "every cycle";
}

/** From where on a group of ranks is timed otherwise. */
export interface Switch {
  readonly ranks: readonly string[];
  /** 0 for the next cycle, whichever that is. */
  readonly fromCycle: number;
}

/** What the server answers to a wish. */
export function decodeSwitches(value: unknown): Switch[] {
  return list(object(value, "answer")["switches"] ?? [], "switches").map((entry) => {
    const one = object(entry, "switch");
    return {
      ranks: maybeTexts(one, "ranks"),
      fromCycle: number(one, "from_cycle", 0),
    };
  });
}

/** "sync from cycle 1,234 on."; `what` was asked for. */
export function switchInWords(what: string, switches: readonly Switch[]): string {
  const starts = switches.map((one) => {
    const from = one.fromCycle > 0 ? `cycle ${whole(one.fromCycle)}` : "the next cycle";
    return switches.length > 1 ? `${from} (${enumerate(one.ranks)})` : from;
  });
  return `${what} from ${enumerate(starts)} on.`;
}
