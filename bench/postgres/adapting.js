// What the Node adapters share; how they are called stands in adapting.py.
'use strict';
const CALLERS = 16;
const AT_ONCE = 1000;

const steady = () => Number(process.hrtime.bigint()) / 1e9; // the system's monotonic clock
const say = (found) => process.stdout.write(JSON.stringify(found) + '\n');

// Counts the calls of a handler; tells the count and the first moment at SIGTERM.
function handled() {
  const state = { first: 0, handled: 0 };
  process.removeAllListeners('SIGTERM');
  process.on('SIGTERM', () => {
    require('fs').writeSync(1, JSON.stringify(state) + '\n');
    process.exit(0);
  });
  return () => {
    if (!state.handled) state.first = steady();
    state.handled += 1;
  };
}

async function bulkRate(tasks, send) {
  const began = steady();
  for (let start = 0; start < tasks; start += AT_ONCE) await send(Math.min(AT_ONCE, tasks - start));
  return tasks / (steady() - began);
}

async function rateOf(tasks, send) {
  const each = Math.floor(tasks / CALLERS);
  const began = steady();
  await Promise.all(Array.from({ length: CALLERS }, async () => {
    for (let i = 0; i < each; i++) await send();
  }));
  return (each * CALLERS) / (steady() - began);
}

function main(name, about, work) {
  const [what, url, tasks] = process.argv.slice(2);
  let loaded;
  try {
    loaded = require(name);
  } catch (error) {
    process.stderr.write(String(error.message).split('\n')[0] + '\n');
    process.exit(3);
  }
  if (what === 'about') {
    const version = require(require.resolve(name + '/package.json')).version;
    say({ version, ...about });
    return;
  }
  work(loaded, what, url, Number(tasks) || 0).then(
    (found) => { if (found) { say(found); process.exit(0); } },
    (error) => { process.stderr.write(String(error.stack || error) + '\n'); process.exit(1); },
  );
}

module.exports = { handled, bulkRate, rateOf, main, CALLERS };
