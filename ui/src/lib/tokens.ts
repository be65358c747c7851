// The colours of the page, light and dark: one table for the style sheet and the canvases.
import { isPhase, PHASES, type PhaseName } from "./phases.ts";

/** Which of the two sets of colours is used. */
export type Theme = "light" | "dark";

/** A phase's own colour and that of a label on it. */
export interface PhaseColour {
  readonly fill: string;
  readonly label: string;
}

type Pair = readonly [light: string, dark: string];

/** Everything that is no phase: `[light, dark]`. */
export const COLOURS = {
  bg: ["#FFFFFF", "#0F1115"],
  bg2: ["#F7F8FA", "#15181D"],
  bg3: ["#EEF0F3", "#1E232A"],
  line: ["#E4E7EC", "#262B33"],
  edge: ["#CBD1DA", "#39404B"],
  line2: ["#838D9C", "#667180"],
  ink: ["#14181F", "#E8EBF0"],
  ink2: ["#48515E", "#B0B8C3"],
  ink3: ["#5F6875", "#8F98A5"],
  accent: ["#6445C4", "#B09DFF"],
  tint: ["#6445C414", "#B09DFF1C"],
  bad: ["#B42318", "#FF8F84"],
  gap: ["#5B6675", "#98A2B0"],
  good: ["#0A6E63", "#4CC9B5"],
  warn: ["#FFDD80", "#F7C948"],
  "warn-ink": ["#3A2A00", "#2A1E00"],
} as const satisfies Record<string, Pair>;

/** A colour that is no phase's. */
export type ColourName = keyof typeof COLOURS;

/**
 * Phases: `[fill, label]` in light, then in dark. Warm is the draft model, blue the target
 * model, grey the scheduler. Lightness keeps neighbours apart without colour.
 */
const PHASE_COLOURS: Readonly<Record<PhaseName, readonly [Pair, Pair]>> = {
  resolve: [
    ["#3C4350", "#FFFFFF"],
    ["#747E8C", "#0B0F16"],
  ],
  forward: [
    ["#4193CE", "#071226"],
    ["#20688F", "#FFFFFF"],
  ],
  draft: [
    ["#A84600", "#FFFFFF"],
    ["#F2A54F", "#1C0F00"],
  ],
  "draft.step": [
    ["#B4530A", "#FFFFFF"],
    ["#DD8F3C", "#1C0F00"],
  ],
  verify: [
    ["#5E89D6", "#071226"],
    ["#466EB3", "#FFFFFF"],
  ],
  "verify.prepare": [
    ["#2B559F", "#FFFFFF"],
    ["#93B5F2", "#0B1830"],
  ],
  "verify.forward": [
    ["#4670BC", "#FFFFFF"],
    ["#6A93D6", "#071226"],
  ],
  "verify.sample": [
    ["#1B7590", "#FFFFFF"],
    ["#5DB2CB", "#04202A"],
  ],
  "verify.commit": [
    ["#3E9DB0", "#071226"],
    ["#2A7080", "#FFFFFF"],
  ],
  draft_extend: [
    ["#6B2A0B", "#FFFFFF"],
    ["#C97C4C", "#1C0F00"],
  ],
  wait: [
    ["#828B99", "#0B0F16"],
    ["#5A6370", "#FFFFFF"],
  ],
  result: [
    ["#5C6573", "#FFFFFF"],
    ["#9BA4B1", "#0B0F16"],
  ],
  schedule: [
    ["#1E252F", "#FFFFFF"],
    ["#DCE2EA", "#14181F"],
  ],
};

/** How much of a host bar's colour fills it; the rest is background. */
export const HOST_FILL = 0.24;

/** The colour of something that is no phase. */
export function colour(name: ColourName, theme: Theme): string {
  return COLOURS[name][theme === "light" ? 0 : 1];
}

/** The colours of a phase; one that the page does not know is drawn like the scheduler. */
export function phaseColour(name: string, theme: Theme): PhaseColour {
  const [fill, label] = PHASE_COLOURS[isPhase(name) ? name : "schedule"][theme === "light" ? 0 : 1];
  return { fill, label };
}

/** The pale fill of a host bar: `HOST_FILL` of the phase's colour over the background. */
export function hostFill(name: string, theme: Theme): string {
  const over = channels(colour("bg", theme));
  const fill = channels(phaseColour(name, theme).fill);
  const mixed = fill.map((value, place) =>
    Math.round(value * HOST_FILL + (over[place] ?? 0) * (1 - HOST_FILL)),
  );
  return `#${mixed.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

/** All colours of a theme as custom properties: `--ink`, `--phase-verify-sample`. */
export function customProperties(theme: Theme): [name: string, value: string][] {
  const plain = (Object.keys(COLOURS) as ColourName[]).map((name): [string, string] => [
    `--${name}`,
    colour(name, theme),
  ]);
  const phases = PHASES.flatMap((name): [string, string][] => [
    [phaseProperty(name), phaseColour(name, theme).fill],
    [`${phaseProperty(name)}-pale`, hostFill(name, theme)],
  ]);
  return [...plain, ...phases];
}

/** The custom property that holds a phase's colour. */
export function phaseProperty(name: string): string {
  return `--phase-${(isPhase(name) ? name : "schedule").replaceAll(".", "-")}`;
}

/** Contrast of two colours by WCAG 2.2, from 1 to 21. */
export function contrast(one: string, other: string): number {
  const [a, b] = [luminance(one), luminance(other)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}

/** Lightness L* of CIE 1976, from 0 to 100: what is left of a colour in grey. */
export function lightness(hex: string): number {
  const y = luminance(hex);
  return y > 216 / 24_389 ? 116 * Math.cbrt(y) - 16 : (y * 24_389) / 27;
}

function luminance(hex: string): number {
  const [red = 0, green = 0, blue = 0] = channels(hex).map((value) => {
    const part = value / 255;
    return part <= 0.040_45 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function channels(hex: string): number[] {
  return [1, 3, 5].map((place) => Number.parseInt(hex.slice(place, place + 2), 16));
}
