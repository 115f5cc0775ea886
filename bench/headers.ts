/**
 * How fast headers are checked, against nothing but their hashes: BTC by SHA-256 twice, LTC and DOGE by scrypt, DASH by X11. The rules
 * should cost little beside the work. Figures are ratios; the machine cancels out.
 */
import { checkHeader, type SentHeader } from '../src/chains/bitcoin/header-rules.ts';
import { meetsTarget, workHash } from '../src/chains/bitcoin/proof-of-work.ts';
import { PROOF_PARAMS, type ProofParams } from '../src/chains/bitcoin/proof-params.ts';
import { ancestorsOf, sentOf } from '../test/kit/headers.ts';
import { median } from './kit.ts';

const ROUNDS = 9;

/** Checks all headers from the first one for which enough earlier ones are known; returns headers per second. */
function measure(params: ProofParams, lowest: number, from: number, headers: readonly SentHeader[], withRules: boolean): number {
  const at = ancestorsOf(
    headers.map(({ bytes }) => bytes),
    lowest,
  );
  const since = performance.now();
  for (let i = from; i < headers.length; i++) {
    if (withRules) {
      const { hashed, target } = checkHeader(params, headers[i]!, { height: lowest + i, at, lowest }, 2 ** 32);
      if (!meetsTarget(workHash(params.work, hashed), target)) throw new Error(`header ${i} has no work`);
    } else workHash(params.work, headers[i]!.bytes);
  }
  return (headers.length - from) / ((performance.now() - since) / 1_000);
}

const { BTC, LTC, DOGE, DASH } = PROOF_PARAMS;
console.log('headers: checked headers per second, bare hashes per second, ratio (more is better)');
for (const [name, params, lowest, from, count] of [
  ['btc-main-822528.hex', BTC.main, 822_528, 1, 4_000],
  ['ltc-main-2859498.hex', LTC.main, 2_859_498, 1, 200],
  ['doge-main-5610330-auxpow.hex', DOGE.main, 5_610_330, 2, 200],
  ['dash-main-999900.hex', DASH.main, 999_900, 24, 300],
] as const) {
  const headers = sentOf(name).slice(0, count);
  const runs = Array.from({ length: ROUNDS }, () => ({
    checked: measure(params, lowest, from, headers, true),
    bare: measure(params, lowest, from, headers, false),
  }));
  const figure = (of: (run: (typeof runs)[0]) => number) => median(runs.map(of));
  console.log(
    `${params.coin.padEnd(5)} ${figure((r) => r.checked).toFixed(0)}/s  ${figure((r) => r.bare).toFixed(0)}/s  ${figure((r) => r.checked / r.bare).toFixed(2)}`,
  );
}
