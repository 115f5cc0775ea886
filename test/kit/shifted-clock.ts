/**
 * Tests at another date: every process that this one starts runs with Debian's libfaketime, whatever its environment: Node, PostgreSQL,
 * nodes of chains, shells. Monotonic clocks are not changed: durations and pauses do not depend on the date.
 */
import { ChildProcess } from 'node:child_process';
import { globSync } from 'node:fs';

export type ShiftedDate = { name: string; at: string; timeZone: string };
/** Dates at which a suite written on another day may fail. */
export const DATES: readonly ShiftedDate[] = [
  { name: 'the last day of February, years from now', at: '2031-02-28T12:00:00Z', timeZone: 'Asia/Kolkata' },
  { name: 'two minutes before a new year', at: '2026-12-31T23:58:00Z', timeZone: 'UTC' },
  { name: 'two minutes before daylight-saving time', at: '2027-03-28T00:58:00Z', timeZone: 'Europe/Berlin' },
];

type Spawning = { file: string; args?: string[]; envPairs?: string[] };
type Prototype = { spawn(options: Spawning): unknown };
/**
 * Makes all further child processes use the date of their own environment. It also runs in other Node processes, as text, in any version,
 * so it may use only its argument.
 */
function shiftChildren(prototype: Prototype): void {
  const names = ['LD_PRELOAD', 'FAKETIME', 'FAKETIME_DONT_FAKE_MONOTONIC', 'TZ', 'NODE_OPTIONS', 'FLORIN_TEST_SHIFT_SECONDS'];
  // Chromium's processes wait forever with a shifted clock: its pages get the date from `openTab`. Redis waits forever too, because its
  // allocator takes the time while the library is still looking for the system's clock; it only counts durations. A system with its own
  // mounts starts its services with an empty environment, so all of it keeps the machine's date.
  const isReal = ({ file, args = [] }: Spawning) => /chromium|redis/.test(file) || args.includes('--mount');
  // The library for threads holds a lock while it reads the clock. PostgreSQL also reads the clock in a signal handler, which would wait
  // for the lock that it interrupted. Its processes have one thread each and get the library without a lock.
  const oneThread = ({ file, args = [] }: Spawning) => [file, ...args].some((arg) => /\/(postgres|initdb|pg_ctl)$/.test(arg));
  const { spawn } = prototype;
  prototype.spawn = function (this: unknown, options) {
    const rest = (options.envPairs ?? []).filter((pair) => !names.some((name) => pair.startsWith(`${name}=`)));
    const own = names.flatMap((name) => {
      const value = process.env[name];
      if (value === undefined) return [];
      return [`${name}=${name === 'LD_PRELOAD' && oneThread(options) ? value.replace('MT.so', '.so') : value}`];
    });
    return spawn.call(this, { ...options, envPairs: isReal(options) ? rest : [...rest, ...own] });
  };
}
const EVERYWHERE = `import { ChildProcess } from 'node:child_process'; (${shiftChildren})(ChildProcess.prototype);`;

/** From now on, processes started by this one run at that date: it starts there now, and advances like any clock. */
export function startAt({ at, timeZone }: ShiftedDate): void {
  const [library] = globSync('/usr/lib/*/faketime/libfaketimeMT.so.1');
  if (!library) throw new Error('libfaketime is missing; npm test installs Debian’s package faketime');
  const seconds = Math.round((Date.parse(at) - Date.now()) / 1000);
  if (process.env.FLORIN_TEST_SHIFT_SECONDS === undefined) shiftChildren(ChildProcess.prototype as unknown as Prototype);
  Object.assign(process.env, {
    LD_PRELOAD: library,
    FAKETIME: `${seconds < 0 ? '' : '+'}${seconds}s`,
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
    TZ: timeZone,
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(EVERYWHERE)}`,
    FLORIN_TEST_SHIFT_SECONDS: String(seconds),
  });
}
/** How far the clock of this process is from the machine's: 0 except in a run at another date. */
export const shiftMs = (): number => Number(process.env.FLORIN_TEST_SHIFT_SECONDS ?? 0) * 1000;
