// pg-boss by fetch(1000) and complete(ids) in a loop, as its documentation advises for the highest
// rates; work() looks at most twice a second.
'use strict';
const { handled, bulkRate, rateOf, main } = require('../adapting.js');

const sleep = (ms) => new Promise((done) => { setTimeout(done, ms); });
main('pg-boss', {
  setting: 'fetch(1000) and complete(ids) in a loop', durability: 'commit',
  fenced: false, receipt: false, scale: 1.0,
  pending: "select exists (select 1 from pgboss.job where name = 'q' and state < 'completed')",
}, async (PgBoss, what, url, tasks) => {
  const quiet = what === 'worker' ? {} : { supervise: false, schedule: false };
  const boss = new PgBoss({ connectionString: url, max: 16, ...quiet });
  boss.on('error', (error) => process.stderr.write(String(error) + '\n'));
  await boss.start();
  if (what === 'setup') { await boss.createQueue('q'); return {}; }
  if (what === 'worker') {
    const hit = handled();
    for (;;) {
      const jobs = await boss.fetch('q', { batchSize: 1000 });
      if (!jobs || !jobs.length) { await sleep(20); continue; }
      jobs.forEach(() => hit());
      await boss.complete('q', jobs.map((job) => job.id));
    }
  }
  if (what === 'bulk') {
    return { rate: await bulkRate(tasks, (n) => boss.insert(
      Array.from({ length: n }, () => ({ name: 'q', data: { n: 0 } })))) };
  }
  return { rate: await rateOf(tasks, () => boss.send('q', { n: 0 })) };
});
