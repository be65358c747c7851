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

/** "sync from cycle 1,234 on." */
export function switchInWords(mode: string, switches: readonly Switch[]): string {
  const starts = switches.map((one) => {
    const from = one.fromCycle > 0 ? `cycle ${whole(one.fromCycle)}` : "the next cycle";
    return switches.length > 1 ? `${from} (${enumerate(one.ranks)})` : from;
  });
  return `${mode} from ${enumerate(starts)} on.`;
}
