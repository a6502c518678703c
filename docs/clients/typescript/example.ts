import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import createClient from "openapi-fetch";
import type { components, paths } from "./counts.js";

type Answer<T> = { data?: T; error?: components["schemas"]["Problem"]; response: Response };

/** Reports whether the same change with the same key should be sent again after an answer that is no success. */
function repeatable({ error, response }: Answer<unknown>): boolean {
  if (error?.code === "PAYMENT_PROCESSING") return true;
  return response.status >= 500 && error?.code !== "INTERNAL" && error?.code !== "NOT_SUPPORTED";
}

/**
 * Calls send, which must send the same change with the same key each time, until an answer settles the outcome. A
 * service keeps a key for at least a minute, so repeat begins no attempt after 45 seconds.
 */
async function repeat<T>(send: (signal: AbortSignal) => Promise<Answer<T>>): Promise<T> {
  const end = Date.now() + 45_000;
  for (let pause = 50; ; pause = Math.min(2 * pause, 2_000)) {
    const answer = await send(AbortSignal.timeout(10_000)).catch((lost: Error) => lost);

    let wait = pause * (0.5 + Math.random());
    if (!(answer instanceof Error)) {
      if (answer.response.ok) return answer.data as T;
      if (!repeatable(answer)) throw new Error("refused", { cause: answer.error });
      wait += 1_000 * (Number(answer.response.headers.get("Retry-After")) || 0); // it may be a date, from a proxy
    }

    if (Date.now() + wait > end) throw new Error("the outcome may be unknown", { cause: answer });
    await sleep(wait);
  }
}

const baseUrl = process.env.COUNTS_URL;
if (!baseUrl) throw new Error("COUNTS_URL is not set");
const counts = createClient<paths>({ baseUrl });

// One key for each change. Store it with the change if another process may have to repeat it.
const first = { "Idempotency-Key": randomUUID() };
await repeat((signal) =>
  counts.POST("/api/v1/counts", {
    params: { header: first, query: { create: true } },
    body: { changes: [{ itemId: "typescript", amount: 41 }] },
    signal,
  }),
);

const second = { "Idempotency-Key": randomUUID() };
const changed = await repeat((signal) =>
  counts.POST("/api/v1/counts/{itemId}/increase", {
    params: { header: second, path: { itemId: "typescript" } },
    body: { amount: 1 },
    signal,
  }),
);
console.log(changed.value);
