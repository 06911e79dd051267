// graphile-worker as its own performance preset has it: 24 jobs at once, a local queue of 500,
// completions in batches. A job is deleted by its id, whoever holds it.
'use strict';
const { handled, bulkRate, rateOf, main } = require('../adapting.js');

const JOBS = 24;
main('graphile-worker', {
  setting: '24 jobs at once, local queue 500, batched completions',
  durability: 'commit', fenced: false, receipt: false, scale: 1.0,
  pending: 'select exists (select 1 from graphile_worker._private_jobs)',
}, async ({ run, makeWorkerUtils, Logger }, what, url, tasks) => {
  const logger = new Logger(() => () => {});
  if (what === 'worker') {
    const preset = {
      worker: {
        connectionString: url, concurrentJobs: JOBS, maxPoolSize: JOBS + 1,
        localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
        completeJobBatchDelay: 0, failJobBatchDelay: 0,
      },
    };
    const hit = handled();
    await run({ preset, logger, taskList: { work: async () => hit() }, noHandleSignals: true });
    return null;
  }
  const utils = await makeWorkerUtils({ connectionString: url, logger });
  if (what === 'setup') { await utils.migrate(); return {}; }
  if (what === 'bulk') {
    return { rate: await bulkRate(tasks, (n) => utils.addJobs(
      Array.from({ length: n }, () => ({ identifier: 'work', payload: { n: 0 } })))) };
  }
  return { rate: await rateOf(tasks, () => utils.addJob('work', { n: 0 })) };
});
