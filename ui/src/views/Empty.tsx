// What stands here before there is a run.
import { server } from "../state.ts";
import { Copy } from "./Copy.tsx";

const ATTACH = "spectrace attach --url http://127.0.0.1:30000";

/** Says how cycles get here. `known`: the server has answered. */
export function Empty({ known }: { readonly known: boolean }) {
  if (!known) {
    return null;
  }
  const endpoint = server.value?.otlp_endpoint ?? null;
  return (
    <section class="empty">
      <h2 class="sentence">Waiting for cycles.</h2>
      <p>
        Start tracing a running SGLang server. It does not have to be restarted and does not wait.
      </p>
      <div class="command">
        <code class="mono">{ATTACH}</code>
        <Copy text={ATTACH} label="Copy" />
      </div>
      {endpoint && (
        <>
          <p>Other machines send here when their exporter has this address:</p>
          <div class="command">
            <code class="mono">{endpoint}</code>
            <Copy text={endpoint} label="Copy" />
          </div>
        </>
      )}
    </section>
  );
}
