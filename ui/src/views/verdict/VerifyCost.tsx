// What verify costs by the number of tokens that it looks at, beside plain decode.
import { estimateText } from "../../lib/estimate.ts";
import { msCell, whole } from "../../lib/format.ts";
import { xOf, yOf } from "../../lib/plot.ts";
import type { Report, VerifyFit } from "../../lib/report.ts";
import { verifyInWords } from "../../lib/verdict.ts";
import { axisFromZero, choiceOf } from "../../lib/whatif.ts";
import { triedBatch } from "../../state.ts";
import { Term } from "../Card.tsx";
import { Plot, Whisker } from "./Plot.tsx";

/** Of the batch size that the what-if is of. */
export function VerifyCost({ report }: { readonly report: Report }) {
  const choice = choiceOf(report, triedBatch.value);
  const fit = report.verify.find((one) => one.batch === choice?.batch) ?? report.verify[0];
  if (!fit) {
    return (
      <section class="part">
        <h3>Cost of verify by tokens</h3>
        <p class="soft">No verify was timed.</p>
      </section>
    );
  }
  return (
    <section class="part">
      <h3>
        <Term about="The median time of verify against the tokens that it looks at for each request. A line is drawn only where the data show one. The square is a whole plain decode: a point of its own.">
          Cost of verify by tokens
        </Term>{" "}
        <span class="caption">ms, batch size {whole(fit.batch)}</span>
      </h3>
      <Curve fit={fit} plainMs={choice?.plain?.cycleMs.value ?? null} />
      {verifyInWords(fit).map((sentence) => (
        <p class="soft" key={sentence}>
          {sentence}
        </p>
      ))}
    </section>
  );
}

function Curve({ fit, plainMs }: { readonly fit: VerifyFit; readonly plainMs: number | null }) {
  const { points, fixedMs, perTokenMs } = fit;
  const most = Math.max(2, ...points.map(({ tokens }) => tokens)) + 1;
  const line = (tokens: number) =>
    fixedMs && perTokenMs ? fixedMs.value + perTokenMs.value * tokens : null;
  const { range, at } = axisFromZero([
    ...points.flatMap(({ verifyMs }) => [verifyMs.value, verifyMs.high]),
    plainMs,
    line(most),
  ]);
  const along = { start: 0.5, end: most + 0.5 };
  const numbers = Array.from({ length: most }, (_, place) => place + 1);
  const every = Math.ceil(most / 12);
  const words = points.map(({ tokens, verifyMs }) => `${tokens}: ${estimateText(verifyMs)} ms`);
  return (
    <>
      <Plot label={`Verify by tokens: ${words.join(", ")}`} height={192} range={range} at={at}>
        {(frame) => {
          const [x, y] = [
            (value: number) => xOf(frame, along, value),
            (value: number) => yOf(frame, range, value),
          ];
          const [from, to] = [line(1), line(most)];
          return (
            <>
              {from !== null && to !== null && (
                <line class="fit" x1={x(1)} y1={y(from)} x2={x(most)} y2={y(to)} />
              )}
              {plainMs !== null && from !== null && from > plainMs && (
                <path class="jump" d={`M${x(1)} ${y(plainMs)}V${y(from)}`} />
              )}
              {plainMs !== null && (
                <>
                  <rect class="plain" x={x(1) - 5} y={y(plainMs) - 5} width={10} height={10} />
                  <text class="name good" x={x(1) + 10} y={y(plainMs) + 4}>
                    plain decode {msCell(plainMs)}
                  </text>
                </>
              )}
              {points.map(({ tokens, verifyMs }) => (
                <g key={tokens}>
                  <Whisker frame={frame} range={range} x={x(tokens)} estimate={verifyMs} />
                  <circle class="verify" cx={x(tokens)} cy={y(verifyMs.value)} r={5} />
                  <text class="name" x={x(tokens)} y={y(verifyMs.value) - 12} text-anchor="middle">
                    {msCell(verifyMs.value)}
                  </text>
                </g>
              ))}
              {numbers
                .filter((tokens) => (tokens - 1) % every === 0)
                .map((tokens) => (
                  <text
                    key={tokens}
                    class="tick"
                    x={x(tokens)}
                    y={frame.height - 8}
                    text-anchor="middle"
                  >
                    {tokens}
                  </text>
                ))}
            </>
          );
        }}
      </Plot>
      <table class="unseen">
        <caption>Verify by tokens</caption>
        <thead>
          <tr>
            <th scope="col">tokens per request</th>
            <th scope="col">verify, ms</th>
          </tr>
        </thead>
        <tbody>
          {points.map(({ tokens, verifyMs }) => (
            <tr key={tokens}>
              <th scope="row">{tokens}</th>
              <td>{estimateText(verifyMs)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
