// The acceptance by batch size and context length, and the requests that accept badly.
import { estimateText, percentText } from "../../lib/estimate.ts";
import { length, share, shortId, whole } from "../../lib/format.ts";
import type { Acceptance, BadRequest, Slice } from "../../lib/report.ts";
import { Sideways } from "./Sideways.tsx";

/** Each table where it has something to tell apart. */
export function Slices({ one }: { readonly one: Acceptance }) {
  return (
    <>
      <Parts of="batch size" slices={one.byBatch} />
      <Parts of="context length" slices={one.byContext} />
      <Bad requests={one.badRequests} />
    </>
  );
}

function Parts(props: { readonly of: string; readonly slices: readonly Slice[] }) {
  if (props.slices.length < 2) {
    return null;
  }
  return (
    <Sideways label={`Acceptance by ${props.of}`}>
      <table>
        <thead>
          <tr>
            <th scope="col">{props.of}</th>
            <th scope="col">verifies</th>
            <th scope="col">accept length</th>
          </tr>
        </thead>
        <tbody>
          {props.slices.map(({ low, high, verifies, acceptLength }) => (
            <tr key={low}>
              <th scope="row">{low === high ? whole(low) : `${whole(low)} to ${whole(high)}`}</th>
              <td>{whole(verifies)}</td>
              <td>{estimateText(acceptLength)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Sideways>
  );
}

function Bad({ requests }: { readonly requests: readonly BadRequest[] }) {
  if (requests.length === 0) {
    return null;
  }
  return (
    <Sideways label="Requests that accept badly">
      <table>
        <thead>
          <tr>
            <th scope="col">accepts badly</th>
            <th scope="col">verifies</th>
            <th scope="col">accept length</th>
            <th scope="col">drafts accepted</th>
            <th scope="col">of the others</th>
          </tr>
        </thead>
        <tbody>
          {requests.map(({ id, verifies, acceptLength, rate, others }) => (
            <tr key={id}>
              <th scope="row" class="mono" title={id}>
                {shortId(id)}
              </th>
              <td>{whole(verifies)}</td>
              <td>{length(acceptLength)}</td>
              <td>{percentText(rate)}</td>
              <td>{share(others)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Sideways>
  );
}
