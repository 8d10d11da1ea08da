'use strict';
// The page of a student of a class: hands in work, and shows where its run is in the queue and what came of it.
const byId = (id) => document.getElementById(id);

function show(found) {
  const words = [];
  if (found.refused) words.push(found.refused);
  if (found.before === 0) words.push('Your work is running.');
  else if (found.before > 0) words.push(`Your work waits; ${found.before} before it.`);
  else if (found.items && found.items.length) words.push(`${found.right} of ${found.items.length} right.`);
  if (found.before === null && found.failure) words.push(found.failure);
  byId('state').textContent = words.join(' ');
  if (found.items) {
    byId('items').replaceChildren(...found.items.map((item) => {
      const line = document.createElement('li');
      line.textContent = `${item.right ? '\u2713' : '\u25cb'} ${item.what}${item.why ? `: not yet: ${item.why}` : ''}`;
      return line;
    }));
  }
  byId('hand-in').disabled = typeof found.before === 'number';
}

async function ask() {
  const answer = await fetch('/state');
  if (answer.ok) show(await answer.json());
}

byId('hand-in').addEventListener('click', async () => {
  const work = JSON.stringify({source: byId('source').value, answers: byId('answers').value});
  const answer = await fetch('/run', {method: 'POST', body: work});
  show(await answer.json());
});
setInterval(ask, 2000);
ask();
