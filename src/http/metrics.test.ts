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
    ['florin_delay_seconds', 'histogram', 'Delay', { ends: [0.05, 1], counts: [2, 3], count: 4, sum: 5.25 }],
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
    '# HELP florin_delay_seconds Delay',
    '# TYPE florin_delay_seconds histogram',
    'florin_delay_seconds_bucket{le="0.05"} 2',
    'florin_delay_seconds_bucket{le="1"} 3',
    'florin_delay_seconds_bucket{le="+Inf"} 4',
    'florin_delay_seconds_sum 5.25',
    'florin_delay_seconds_count 4',
    '',
  ]);
});
