/** When emails are sent, on days of 23, 24 and 25 hours. */
// Invariant: A held digest is sent once, even after a crash; nothing urgent is held.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isTimeZone } from '../core/dates.ts';
import { type MailTiming, nextMail, wallText } from './digests.ts';

const BERLIN: MailTiming = { timeZone: 'Europe/Berlin', dailyHour: null, quiet: null };
const night = { from: 22 * 60, to: 7 * 60 };
const at = (timing: MailTiming, now: string): string | null => nextMail(timing, new Date(now))?.toISOString() ?? null;

test('without a digest and outside the quiet hours, emails are sent at once', () => {
  assert.equal(at(BERLIN, '2026-06-01T03:00:00Z'), null);
  assert.equal(at({ ...BERLIN, quiet: night }, '2026-06-01T05:00:00Z'), null, '07:00 is not quiet any more');
  assert.equal(at({ ...BERLIN, quiet: night }, '2026-06-01T19:59:59.999Z'), null);
});

test('emails in quiet hours are sent when those end, across midnight and within a day', () => {
  assert.equal(at({ ...BERLIN, quiet: night }, '2026-06-01T20:00:00Z'), '2026-06-02T05:00:00.000Z');
  assert.equal(at({ ...BERLIN, quiet: night }, '2026-06-02T04:59:59.999Z'), '2026-06-02T05:00:00.000Z');
  const noon = { ...BERLIN, quiet: { from: 12 * 60, to: 13 * 60 + 30 } };
  assert.equal(at(noon, '2026-01-05T11:00:00Z'), '2026-01-05T12:30:00.000Z');
});

test('the quiet hours end by the wall clock, also when it is changed', () => {
  const quiet = { ...BERLIN, quiet: night };
  assert.equal(at(quiet, '2026-03-28T21:30:00Z'), '2026-03-29T05:00:00.000Z', 'a night of eight hours');
  assert.equal(at(quiet, '2026-10-24T20:30:00Z'), '2026-10-25T06:00:00.000Z', 'a night of ten hours');
});

test('an end that is skipped in spring is at the change; one that occurs twice in autumn is at either', () => {
  const quiet = { ...BERLIN, quiet: { from: 22 * 60, to: 2 * 60 + 30 } };
  assert.equal(at(quiet, '2026-03-28T23:00:00Z'), '2026-03-29T01:00:00.000Z');
  assert.equal(at(quiet, '2026-03-29T01:00:00Z'), null);
  assert.equal(at(quiet, '2026-10-25T00:10:00Z'), '2026-10-25T00:30:00.000Z');
  assert.equal(at(quiet, '2026-10-25T00:40:00Z'), null);
  assert.equal(at(quiet, '2026-10-25T01:10:00Z'), '2026-10-25T01:30:00.000Z');
});

test('a digest is sent on every day of a year, at its hour, in every kind of time zone', () => {
  for (const timeZone of ['Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Africa/Cairo', 'America/Santiago', 'UTC']) {
    for (const dailyHour of [0, 2, 9]) {
      const timing = { timeZone, dailyHour, quiet: null };
      const spans = new Set<number>();
      const days = new Set<string>();
      let now = nextMail(timing, new Date('2025-01-01T00:00:00Z'))!;
      for (let i = 0; i < 365; i++) {
        const next = nextMail(timing, now)!;
        spans.add((next.getTime() - now.getTime()) / 3_600_000);
        const [day, clock] = wallText(timeZone, next).split(' ') as [string, string];
        assert.ok(!days.has(day), `${timeZone} ${day}: twice`);
        days.add(day);
        // A time skipped on that day becomes the moment of the change.
        const late = Number(clock.slice(0, 2)) * 60 + Number(clock.slice(3)) - dailyHour * 60;
        assert.ok(late >= 0 && late <= 60, `${timeZone} ${dailyHour}: ${day} ${clock}`);
        assert.equal(nextMail(timing, new Date(next.getTime() - 1))!.getTime(), next.getTime());
        now = next;
      }
      assert.equal(days.size, 365);
      for (const span of spans) assert.ok(span >= 22.5 && span <= 25.5, `${timeZone}: ${span}`);
      if (timeZone === 'Europe/Berlin' && dailyHour === 9) assert.deepEqual([...spans].sort(), [23, 24, 25]);
      if (timeZone === 'UTC') assert.deepEqual([...spans], [24]);
    }
  }
});

test('a digest whose hour is quiet is sent when the quiet hours end, every day', () => {
  const timing = { ...BERLIN, dailyHour: 23, quiet: night };
  assert.equal(at(timing, '2026-06-01T12:00:00Z'), '2026-06-02T05:00:00.000Z');
  assert.equal(at(timing, '2026-06-01T21:30:00Z'), '2026-06-02T05:00:00.000Z');
  assert.equal(at(timing, '2026-06-02T05:00:00Z'), '2026-06-03T05:00:00.000Z');
});

test('whatever the time zone and the quiet hours, an email is sent after its cause, within 25 hours, and not in quiet hours', () => {
  for (const timeZone of ['Europe/Berlin', 'Australia/Lord_Howe', 'Pacific/Chatham', 'America/Santiago']) {
    for (let i = 0; i < 3_000; i++) {
      const from = (i * 37) % 1440;
      const quiet = { from, to: (from + 1 + ((i * 101) % 1438)) % 1440 };
      const now = new Date(Date.UTC(2026, 0, 1) + i * 10_000_000);
      const sent = nextMail({ timeZone, dailyHour: null, quiet }, now) ?? now;
      const wait = sent.getTime() - now.getTime();
      assert.ok(wait >= 0 && wait <= 25 * 3_600_000, `${timeZone} ${now.toISOString()}`);
      assert.equal(nextMail({ timeZone, dailyHour: null, quiet }, sent), null, `${timeZone} ${sent.toISOString()}`);
    }
  }
});

test('only names of time zones are accepted', () => {
  for (const name of ['Europe/Berlin', 'UTC', 'America/Argentina/Buenos_Aires']) assert.ok(isTimeZone(name), name);
  for (const name of ['Mars/Base', '', '+01:00', "UTC'; --"]) assert.ok(!isTimeZone(name), name);
  assert.equal(at({ timeZone: 'Mars/Base', dailyHour: 9, quiet: null }, '2026-06-01T03:00:00Z'), '2026-06-01T09:00:00.000Z', 'as UTC');
});
