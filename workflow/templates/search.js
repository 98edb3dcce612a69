
// Shows the rows of a table that hold what is typed, numbers apart; at first a few rows.
for (const input of document.querySelectorAll("input[type=search]")) {
  const rows = [...document.getElementById(input.name).tBodies[0].rows];
  const [answer, button] = input.closest("p").querySelectorAll("output, button");
  const words = (number) => number.toLocaleString("en");
  let first = Number(input.dataset.first);
  const show = () => {
    const wanted = input.value.trim().toLowerCase();
    let shown = 0;
    for (const [place, row] of rows.entries()) {
      const cells = [...row.cells].filter((cell) => !cell.classList.contains("number"));
      row.hidden = wanted
        ? !cells.some((cell) => cell.textContent.toLowerCase().includes(wanted))
        : place >= first;
      shown += !row.hidden;
    }
    answer.textContent = `${words(shown)} of ${words(rows.length)}`;
    button.hidden = shown === rows.length || wanted !== "";
  };
  input.addEventListener("input", show);
  button.addEventListener("click", () => {
    first = rows.length;
    show();
  });
  input.closest("p").hidden = false;
  show();
}
