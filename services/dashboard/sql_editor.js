// Options that NiceGUI's editor lacks: it offers tables, views and their columns while somebody
// types, and follows the light or dark theme of the page.
async (editorId, relations) => {
  const CM = await import("nicegui-codemirror");
  const element = getElement(editorId);
  if (!element.editor) await element.editorPromise;

  const columnsOf = (name) => (relations[name]?.columns ?? []).map((label) => ({ label, type: "property" }));
  const names = Object.entries(relations).map(([label, { comment }]) => ({ label, type: "class", info: comment }));
  element.offered = (context) => {
    const column = context.matchBefore(/\w+\.\w*/);
    if (column) {
      const [name] = column.text.split(".");
      return { from: column.from + name.length + 1, options: columnsOf(name), validFor: /^\w*$/ };
    }
    const word = context.matchBefore(/\w+/);
    if (!word && !context.explicit) return null;
    const named = new Set(context.state.doc.toString().match(/\w+/g));
    const columns = Object.keys(relations).filter((name) => named.has(name)).flatMap(columnsOf);
    return { from: word ? word.from : context.pos, options: [...names, ...columns], validFor: /^\w*$/ };
  };
  if (element.follower) return;

  const source = (context) => element.offered(context);
  const data = CM.EditorState.languageData.of(() => [{ autocomplete: source }]);
  const named = CM.EditorView.contentAttributes.of({ "aria-label": "Query" });
  element.editor.dispatch({ effects: CM.StateEffect.appendConfig.of([data, named]) });
  const follow = () => element.setTheme(Quasar.Dark.isActive ? "githubDark" : "vscodeLight");
  element.follower = new MutationObserver(follow);
  element.follower.observe(document.body, { attributeFilter: ["class"] });
  follow();
}
