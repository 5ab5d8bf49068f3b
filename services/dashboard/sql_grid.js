// Fetches rows of an answer and shows them in the grid.
async (gridId, address) => {
  const answer = await fetch(address);
  const rows = answer.ok ? await answer.json() : [];
  const drawn = () => new Promise(requestAnimationFrame);
  while (!getElement(gridId)?.api) {
    if (!document.getElementById(`c${gridId}`)) return; // another query was run
    await drawn();
  }
  const { api } = getElement(gridId);
  api.updateGridOptions({ rowData: rows, loading: false });
  await drawn();
  api.autoSizeAllColumns();
}
