// What is under the pointer is said in a line; a click in the legend leaves one piece standing.
const said = document.getElementById('said');
const marked = document.querySelectorAll('.piece, .bar');
for (const shape of marked) {
  shape.addEventListener('pointerenter', () => { said.textContent = shape.querySelector('title').textContent; });
  shape.addEventListener('pointerleave', () => { said.textContent = ''; });
}
let chosen = null;
for (const button of document.querySelectorAll('.legend button[data-piece]')) {
  button.addEventListener('click', () => {
    chosen = chosen === button.dataset.piece ? null : button.dataset.piece;
    for (const shape of marked) shape.classList.toggle('faded', chosen !== null && shape.dataset.piece !== chosen);
    for (const other of document.querySelectorAll('.legend button')) {
      other.setAttribute('aria-pressed', other.dataset.piece === chosen);
    }
  });
}
