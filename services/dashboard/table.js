// A table whose cells are text, never markup. NiceGUI's alternative, a template in a slot of
// Quasar's table, is recreated at each update of the page, which loses focus, selection and
// unfinished clicks.
export default {
  template: `
  <div class="zf-table" :tabindex="rows.length && !aimable ? 0 : null">
    <table v-if="rows.length || !empty">
      <thead>
        <tr><th v-for="c in columns" :key="c.name" scope="col" :class="{ 'zf-right': c.figure }">{{ c.label }}</th></tr>
      </thead>
      <tbody>
        <tr v-for="row in rows" :key="row.key" :tabindex="aimable ? 0 : null" :class="{ 'zf-aimable': aimable }"
          @mouseenter="aim(row.key, row.address)" @mouseleave="aim(null)" @focus="aim(row.key, row.address)" @blur="aim(null)"
          @click="show()">
          <td v-for="c in columns" :key="c.name" :class="{ 'zf-right': c.figure }">
            <span v-if="drawn(row, c.name)" :class="share(row, c.name) == null ? 'zf-counts' : 'zf-bound'" role="img"
              :aria-label="row[c.name + '_title']" :title="row[c.name + '_title']">
              <span v-if="share(row, c.name) != null" :class="['zf-bound-fill', share(row, c.name) < 0 ? 'zf-negative' : 'zf-positive']"
                :style="bar(share(row, c.name))"></span>
              <span v-else v-for="(height, place) in heights(row[c.name + '_counts'])" :key="place" :style="{ height }"></span>
            </span>
            <a v-else-if="row[c.name + '_link']" :href="row[c.name + '_link']">{{ row[c.name] }}</a>
            <span v-else :title="row[c.name + '_title']"><span v-if="row[c.name + '_lamp']"
              :class="['zf-light', 'zf-' + row[c.name + '_lamp']]"></span>{{ row[c.name] }}</span>
          </td>
        </tr>
      </tbody>
    </table>
    <div v-else class="zf-empty">{{ empty }}</div>
  </div>`,
  props: {
    columns: Array, // [{name, label, figure}]
    rows: Array, // [{key, <name>, <name>_link, ...}]: TableColumn
    empty: String, // in place of a table without rows
    aimable: Boolean, // rows can be pointed at
    shown: String, // selector of the element that shows the row under the pointer
  },
  emits: ["aimed"],
  // A row that moves loses the focus on its way; that event is not reported.
  beforeUpdate() {
    const focused = document.activeElement;
    this.held = this.$el.contains(focused) ? focused : null;
  },
  updated() {
    const held = this.held;
    if (held?.isConnected) held.focus({ preventScroll: true });
    this.held = null;
    if (held && !held.isConnected) this.aim(null);
  },
  methods: {
    aim(key, address) {
      if (!this.aimable || this.held) return;
      // Here and not by the server, so that a link in the row already finds it changed.
      if (address) history.replaceState({ page: address }, "", address);
      this.$emit("aimed", key);
    },
    show() { if (this.shown) document.querySelector(this.shown)?.scrollIntoView({ block: "nearest" }); },
    share(row, name) { return row[name + "_share"]; },
    drawn(row, name) { return this.share(row, name) != null || row[name + "_counts"]; },
    // From the middle: full to the right where the test promotes, to the left where it rejects.
    bar(share) {
      return { width: Math.abs(share) * 50 + "%", left: (share < 0 ? 50 + share * 50 : 50) + "%" };
    },
    heights(counts) { // as in a chart; the greatest is full
      const most = Math.max(1, ...counts);
      return counts.map((count) => 6 + (94 * count) / most + "%");
    },
  },
};
