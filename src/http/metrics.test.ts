/** The text of metrics. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { metricsText } from './metrics.ts';

test('each metric has its help, its type and a line for each value', () => {
  const text = metricsText([
    ['florin_payments_due', 'gauge', 'Payments due to be settled', [['', 3]]],
    [
      'florin_attempts_total',
      'counter',
      'Attempts by outcome',
      [
        ['{outcome="ok"}', 2],
        ['{outcome="failed"}', 0],
      ],
    ],
    ['florin_sources', 'gauge', 'Sources', []],
  ]);
  assert.deepEqual(text.split('\n'), [
    '# HELP florin_payments_due Payments due to be settled',
    '# TYPE florin_payments_due gauge',
    'florin_payments_due 3',
    '# HELP florin_attempts_total Attempts by outcome',
    '# TYPE florin_attempts_total counter',
    'florin_attempts_total{outcome="ok"} 2',
    'florin_attempts_total{outcome="failed"} 0',
    '# HELP florin_sources Sources',
    '# TYPE florin_sources gauge',
    '',
  ]);
});
