// A board of any game as SVG. Its properties, computed in Python (board.py), are what it shows.
// It emits the action under the pointer or the keyboard's cursor ("hover"), and the chosen one
// ("play").
const U = 40; // units of one cell
const NAMES = 24; // units for the names of rows and columns
const DRAG = 5; // pixels that a pressed pointer moves before it drags
const FLIPPED = "zf-flipped"; // in the session's storage, and the event of the page's button
const PATHS = {
  p: "M20 7a6 6 0 0 1 3.6 10.8c2.6 1.6 3.9 4.6 2.6 8.2H13.8c-1.3-3.6 0-6.6 2.6-8.2A6 6 0 0 1 20 7zM12 28h16l2 6H10z",
  r: "M10 7h5v4h3V7h4v4h3V7h5v8l-3 3v8H13v-8l-3-3zM11 28h18l2 6H9z",
  n: "M17 6l3 4c7 1 10 7 9.5 16H14c0-5 5-7 5-11-2 2-4 2.5-5.5 4.5l-3-2.5c1-4 3-7 5.5-8zM12 28h17l2 6H10z",
  b: "M20 5a2.5 2.5 0 0 1 1.8 4.3c5.5 4 7 11.5 3.7 16.7h-11c-3.3-5.2-1.8-12.7 3.7-16.7A2.5 2.5 0 0 1 20 5zM11 28h18l2 6H9z",
  q: "M8 9a2.2 2.2 0 1 1 1.5 2L14 18l1.5-8.5a2.2 2.2 0 1 1 2 0L20 17l2.5-7.5a2.2 2.2 0 1 1 2 0L26 18l4.5-7A2.2 2.2 0 1 1 32 9l-5 17H13zM11 28h18l2 6H9z",
  k: "M18.5 4h3v2.5H24v3h-2.5V13c6-3 12 0 9 7l-3 6h-15l-3-6c-3-7 3-10 9-7V9.5H16v-3h2.5zM11 28h18l2 6H9z",
};
const STYLE = `
.zf-board { --paper: #fff; --ink: #263238; --rule: #90a4ae; --field: #eceff1; --field-2: #cfd8dc;
  --first: #22272b; --second: #fbfbf8; --edge: #37474f; --heat: #0277bd; --aim: #0277bd;
  --last: #d84315; --check: #e0685b; --won: #1b7f3b; color: var(--ink); width: 100%; outline: none; border-radius: 6px; }
.body--dark .zf-board { --paper: #1d1d1d; --ink: #e0e0e0; --rule: #607d8b; --field: #2b3236;
  --field-2: #3b454b; --edge: #90a4ae; --heat: #4fc3f7; --aim: #4fc3f7; --last: #ff8a65; }
.body--dark .zf-board.stones.squares, .body--dark .zf-board.stones.hexagons { --field: #5f6c74; --rule: #84949c; }
.zf-board.lines { --field: #e2c48c; --rule: #6d5626; --edge: #3e3420; --heat: #01579b; --aim: #01579b; --last: #bf360c; }
.body--dark .zf-board.lines { --field: #b7975d; --rule: #4c3b16; }
.zf-board.felt { --field: #3b7a57; --rule: #24523a; --edge: #16301f; --heat: #ffd54f; --aim: #ffd54f; --last: #ff7043; }
.zf-board.frame { --field: #35588a; --rule: #27436b; --first: #c8382f; --second: #f2c230; --edge: #233a5c; --last: #111; --heat: #0277bd; }
.body--dark .zf-board.frame { --field: #2d4a75; --heat: #4fc3f7; }
.zf-board.marks { --first: #01579b; --second: #c2410c; }
.body--dark .zf-board.marks { --first: #4fc3f7; --second: #ffab70; }
.zf-board.chess, .zf-board.chequered { --field: #e9e3d3; --field-2: #a9b6a0; --edge: #1c1c1c; --heat: #01579b; --aim: #01579b; }
.body--dark .zf-board.chequered { --field: #cdc6b4; --field-2: #83917b; }
.zf-board.white-first { --first: #fdfdfb; --second: #23272a; }
.zf-board:focus-visible { box-shadow: 0 0 0 3px var(--aim); }
.zf-board .points { display: block; width: 100%; height: auto; touch-action: manipulation; user-select: none; }
.zf-board .captured { display: flex; align-items: center; height: 1.6rem; font-size: .8rem; }
.zf-board .captured svg { width: 1.3rem; height: 1.3rem; margin-right: -.35rem; flex: none; }
.zf-board .captured svg:last-of-type { margin-right: .3rem; }
.zf-board .off svg { width: 1.8rem; height: 1.8rem; vertical-align: middle; margin-right: .2rem; }
.zf-board svg * { pointer-events: none; } /* what is drawn anew between press and release would take the click with it */
.zf-board text { font-family: inherit; text-anchor: middle; dominant-baseline: central; font-variant-numeric: tabular-nums; }
.zf-board .names { fill: var(--ink); font-size: 13px; }
.zf-board .halo { paint-order: stroke; stroke: #fff; stroke-width: 3.5px; stroke-linejoin: round; fill: #111; }
.zf-board pre { margin: 0; padding: 8px; overflow: auto; font-size: 13px; line-height: 1.25; background: var(--field); }
.zf-board .off { display: flex; flex-wrap: wrap; gap: 6px; padding: 6px 0; max-height: 15rem; overflow: auto; }
.zf-board .off button, .zf-board .off span { font: inherit; color: inherit; background: var(--paper); border: 1px solid var(--rule); border-radius: 4px; padding: 3px 10px; min-height: 28px; }
.zf-board .off button { cursor: pointer; }
.zf-board .off .last { border-color: var(--last); }
.zf-board .off button:focus-visible, .zf-board .off button:hover { outline: 2px solid var(--aim); }
.zf-board .said { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
`;

function addStyle() {
  if (document.getElementById("zf-board-style")) return;
  const style = document.createElement("style");
  style.id = "zf-board-style";
  style.textContent = STYLE;
  document.head.appendChild(style);
}

export default {
  template: `
  <div :class="['zf-board', shape.style, shape.pieces, { 'white-first': shape.white_first }]" :role="playable ? 'application' : 'group'"
    :tabindex="playable ? 0 : -1" :aria-label="label" @keydown="key" @blur="leave" @pointerleave="leave">
    <pre v-if="shape.style == 'text'" tabindex="0">{{ position.text }}</pre>
    <div v-if="rows.length" class="captured" role="img" :aria-label="rows[1].words">
      <svg v-for="(glyph, i) in rows[1].glyphs" :key="i" viewBox="0 0 40 40" v-html="picture(rows[1].owner, glyph)"></svg>{{ rows[1].lead ? "+" + rows[1].lead : "" }}
    </div>
    <svg v-if="shape.style != 'text'" ref="svg" class="points" :viewBox="box" aria-hidden="true" @pointerdown="press" @pointermove="move" @pointerup="drop" @pointercancel="drag = null"
      @touchmove="hold" @click="click" :style="{ cursor: drag && drag.at ? 'grabbing' : playable && aimed.length ? 'pointer' : 'default' }">
      <rect v-if="shape.style != 'hexagons'" x="0" y="0" :width="wide" :height="high" rx="3"
        fill="var(--field)" />
      <g v-if="shape.style == 'chequered'">
        <rect v-for="p in darkFields" :key="p" :x="x(p) - 20" :y="y(p) - 20" width="40" height="40" fill="var(--field-2)" />
      </g>
      <g v-else-if="shape.style == 'frame'">
        <circle v-for="p in points" :key="p" :cx="x(p)" :cy="y(p)" r="16.5" fill="var(--paper)" stroke="var(--rule)" />
      </g>
      <g v-else-if="shape.style == 'hexagons'">
        <polygon v-for="p in points" :key="p" :points="hexagon(p)" fill="var(--field)" stroke="var(--rule)" />
      </g>
      <path v-else-if="!position.picture" :d="rules" stroke="var(--rule)" stroke-width="1.2" fill="none" />
      <g v-if="position.picture" class="zf-picture" transform="scale(40)" v-html="position.picture"></g>
      <circle v-for="p in shape.stars" :key="'s' + p" :cx="x(p)" :cy="y(p)" r="3.2" fill="var(--rule)" />
      <g class="names">
        <text v-for="(name, r) in shape.row_names" :key="'r' + r" :x="rowX(r)" :y="y(r * shape.columns)">{{ name }}</text>
        <text v-for="(name, c) in shape.column_names" :key="'c' + c" :x="columnX(c)" :y="high + NAMES / 2">{{ name }}</text>
      </g>
      <g v-if="lastMoves">
        <rect v-for="p in lastPoints" :key="'l' + p" :x="x(p) - 20" :y="y(p) - 20" width="40" height="40" fill="var(--last)" opacity="0.28" />
      </g>
      <rect v-if="position.check !== null" class="zf-check" :x="x(position.check) - 20" :y="y(position.check) - 20" width="40" height="40" fill="var(--check)" />
      <g v-if="heat">
        <template v-for="m in drawn" :key="'h' + m.action">
          <line v-if="m.source === null && m.points.length > 1" :x1="x(m.points[0])" :y1="y(m.points[0])" :x2="x(m.points[m.points.length - 1])"
            :y2="y(m.points[m.points.length - 1])" stroke="var(--heat)" stroke-width="20" stroke-linecap="round" :opacity="m.alpha" />
          <circle v-else-if="m.source === null && round" :cx="x(m.points[0])" :cy="y(m.points[0])" r="16.5" fill="var(--heat)" :opacity="m.alpha" />
          <rect v-else-if="m.source === null" :x="x(m.points[0]) - 19" :y="y(m.points[0]) - 19" width="38" height="38" rx="2" fill="var(--heat)" :opacity="m.alpha" />
        </template>
      </g>
      <g v-for="piece in pieces" :key="piece.point" class="zf-piece" :transform="at(piece.point)" :opacity="drag && drag.at && drag.point === piece.point ? 0.3 : 1"><g v-html="picture(piece.owner, piece.glyph)"></g></g>
      <g v-if="!lastMoves">
        <circle v-for="p in lastPoints" :key="'l' + p" :cx="x(p)" :cy="y(p)" r="6" fill="none" stroke="var(--last)" stroke-width="3" />
      </g>
      <g v-for="row in position.won_by" :key="'r' + row.join()" class="zf-won">
        <line v-for="(colour, i) in ['#fff', 'var(--won)']" :key="i" :x1="x(row[0])" :y1="y(row[0])" :x2="x(row[row.length - 1])" :y2="y(row[row.length - 1])"
          :stroke="colour" :stroke-width="i ? 5 : 9" stroke-linecap="round" />
      </g>
      <rect v-if="position.ko !== null" :x="x(position.ko) - 8" :y="y(position.ko) - 8" width="16" height="16" fill="none" stroke="var(--last)" stroke-width="2.5" />
      <g v-for="m in drawn" :key="'a' + m.action">
        <path v-if="m.source !== null" :d="arrow(m.source, m.points[0], 2 + 7 * m.share)" fill="var(--heat)" :opacity="0.25 + 0.65 * m.share" />
        <circle v-else-if="!heat" :cx="centre(m)[0]" :cy="centre(m)[1]" :r="5 + 12.5 * Math.sqrt(m.share)" fill="var(--heat)" :opacity="m.action === best ? 0.85 : 0.5" />
        <circle v-if="m.action === best && m.source === null" :cx="centre(m)[0]" :cy="centre(m)[1]" r="18" fill="none" stroke="var(--heat)" stroke-width="2.5" />
      </g>
      <g>
        <text v-for="m in labelled" :key="'t' + m.action" class="halo" :x="centre(m)[0]" :y="centre(m)[1]" :font-size="m.label.length > 4 ? 10 : 12">{{ m.label }}</text>
      </g>
      <rect v-if="selected !== null" :x="x(selected) - 19" :y="y(selected) - 19" width="38" height="38" fill="none" stroke="var(--aim)" stroke-width="3" />
      <g v-if="selected !== null">
        <circle v-for="p in targets" class="zf-target" :key="'g' + p" :cx="x(p)" :cy="y(p)" r="7" fill="var(--aim)" opacity="0.7" />
      </g>
      <g v-for="step in steps" class="zf-step" :key="'v' + step.number">
        <path v-if="step.source !== null" :d="arrow(step.source, step.points[0], 5)" :fill="step.number == 1 ? 'var(--aim)' : 'var(--last)'" opacity="0.8" />
        <template v-else>
          <g v-for="p in step.points" :key="p" :transform="at(p)" opacity="0.72"><g v-html="picture(step.owner, step.glyph)"></g></g>
        </template>
        <text class="halo" font-size="15" font-weight="700" :x="centre(step)[0]" :y="centre(step)[1]">{{ step.number }}</text>
      </g>
      <g v-if="playable && ghost && !steps.length" opacity="0.45">
        <g v-for="p in ghost.points" :key="'w' + p" :transform="at(p)"><g v-html="picture(mover, '')"></g></g>
      </g>
      <rect v-if="cursor !== null" :x="x(cursor) - 19" :y="y(cursor) - 19" width="38" height="38" rx="4" fill="none" stroke="var(--aim)" stroke-width="3" stroke-dasharray="7 4" />
      <g v-if="dragged" class="zf-dragged" :transform="'translate(' + (drag.at.x - 22) + ' ' + (drag.at.y - 22) + ') scale(1.1)'" v-html="picture(dragged.owner, dragged.glyph)"></g>
    </svg>
    <div v-if="rows.length" class="captured" role="img" :aria-label="rows[0].words">
      <svg v-for="(glyph, i) in rows[0].glyphs" :key="i" viewBox="0 0 40 40" v-html="picture(rows[0].owner, glyph)"></svg>{{ rows[0].lead ? "+" + rows[0].lead : "" }}
    </div>
    <div v-if="choices.length || off.length" class="off">
      <component v-for="a in choices.length ? choices : off" :key="a.action" :is="playable ? 'button' : 'span'" :type="playable ? 'button' : null"
        :class="{ last: a.action === lastOff }" @click="playable && play(a.action)" @mouseenter="aim([a])" @focus="aim([a])"><svg v-if="promoted(a)" viewBox="0 0 40 40" aria-hidden="true" v-html="picture(mover, promoted(a))"></svg>{{ a.text }}{{ share(a.action) }}</component>
    </div>
    <span v-if="lastOff !== null && !off.some((a) => a.action === lastOff)">last: {{ position.last.text }}</span>
    <span class="said" aria-live="polite">{{ said }}</span>
  </div>`,
  props: {
    shape: Object, // BoardGrid
    position: Object, // BoardPosition
    marks: Array, // [{action, share, label}], share of the greatest one
    heat: Boolean, // marks as a heat map; else as circles
    best: Number,
    line: Array, // VariationStep
    playable: Boolean,
    flips: Boolean, // whether the button of the page turns it
    turned: Boolean, // shown from the second player's side, unless flipped
    mover: Number, // whose pieces the player to move puts: 0, 1, or -1 where they look alike
    label: String,
  },
  emits: ["play", "hover"],
  data: () => ({ NAMES, aimed: [], cursor: null, selected: null, choices: [], said: "", hovered: null, drag: null, flipped: false }),
  created() {
    addStyle();
    try { this.flipped = sessionStorage.getItem(FLIPPED) == "yes"; } catch { /* storage is off */ }
    addEventListener(FLIPPED, this.turnOver);
  },
  beforeUnmount() { removeEventListener(FLIPPED, this.turnOver); },
  watch: {
    "position.number"() { // not its marks alone
      this.aimed = []; this.selected = null; this.choices = []; this.hovered = null; this.drag = null;
    },
  },
  computed: {
    points() { return [...Array(this.shape.rows * this.shape.columns).keys()]; },
    round() { return ["lines", "frame", "hexagons", "felt"].includes(this.shape.style); },
    slant() { return this.shape.style == "hexagons" ? 0.5 : 0; },
    rise() { return this.shape.style == "hexagons" ? Math.sqrt(3) / 2 : 1; },
    wide() { return U * (this.shape.columns + this.slant * (this.shape.rows - 1)); },
    high() { return U * (this.rise * (this.shape.rows - 1) + 1) + (this.slant ? 6 : 0); },
    box() {
      const left = this.shape.row_names.length ? NAMES : 0;
      const below = this.shape.column_names.length ? NAMES : 0;
      return `${-left} -1 ${this.wide + left + (left ? 1 : 0)} ${this.high + below + 2}`;
    },
    flip() { return !this.shape.pictured && (this.flips && this.flipped) != this.turned; }, // its texts would stand on their heads
    rows() { // captured pieces below and above the board: those of the player who sits there first
      const [first, second] = this.position.captured.map((each, player) => ({ ...each, owner: 1 - player }));
      if (!first) return [];
      return this.flip ? [second, first] : [first, second];
    },
    dragged() { return this.drag && this.drag.at ? this.pieces.find((each) => each.point === this.drag.point) : null; },
    darkFields() { return this.points.filter((p) => (Math.floor(p / this.shape.columns) + p % this.shape.columns) % 2); },
    rules() {
      const { rows, columns, style } = this.shape;
      const shift = style == "lines" ? U / 2 : 0;
      const extra = style == "lines" ? 0 : 1;
      let path = "";
      for (let r = 0; r < rows + extra; r++) path += `M${shift} ${r * U + shift}H${this.wide - shift}`;
      for (let c = 0; c < columns + extra; c++) path += `M${c * U + shift} ${shift}V${this.high - shift}`;
      return path;
    },
    actions() { return this.position.actions; },
    byAction() { return new Map(this.actions.map((a) => [a.action, a])); },
    byMark() { return new Map(this.marks.map((m) => [m.action, m])); },
    off() { return this.actions.filter((a) => !a.points.length); },
    drawn() {
      if (this.line.length) return [];
      return this.marks.filter((m) => this.byAction.get(m.action)?.points.length).map((m) => {
        const a = this.byAction.get(m.action);
        return { ...m, points: a.points, source: a.source, alpha: 0.06 + 0.74 * Math.sqrt(m.share) };
      });
    },
    labelled() { // one label on a point: that of the greatest share
      const at = new Map();
      for (const m of this.drawn) {
        const there = at.get(m.points[0]);
        if (m.label && (!there || there.share < m.share)) at.set(m.points[0], m);
      }
      return [...at.values()];
    },
    pieces() { return this.position.picture ? [] : this.position.pieces; }, // it shows them
    lastMoves() { return this.shape.pieces == "marks" || (this.position.last && this.position.last.source !== null); },
    lastPoints() {
      const last = this.position.last;
      return last ? (last.source === null ? last.points : [last.source, ...last.points]) : [];
    },
    lastOff() { const last = this.position.last; return last && !last.points.length ? last.action : null; },
    steps() {
      const onBoard = this.line.map((step, i) => ({ ...step, number: i + 1 })).filter((step) => step.points.length);
      const last = new Map(onBoard.map((step) => [step.points[0], step.number]));
      return onBoard.filter((step) => last.get(step.points[0]) == step.number || step.source !== null);
    },
    targets() { return [...new Set(this.actions.filter((a) => a.source === this.selected).map((a) => a.points[0]))]; },
    ghost() {
      const one = this.aimed.length == 1 ? this.aimed[0] : null;
      return one && one.source === null ? one : null;
    },
  },
  methods: {
    // Where a point is drawn, as [row, column]. A rack is seen from behind, where discs still fall down.
    place(p) {
      const { rows, columns, style } = this.shape;
      const [row, column] = [Math.floor(p / columns), p % columns];
      return this.flip ? [style == "frame" ? row : rows - 1 - row, columns - 1 - column] : [row, column];
    },
    x(p) {
      const [row, column] = this.place(p);
      return U * (column + 0.5 + this.slant * row);
    },
    y(p) { return U * (this.rise * this.place(p)[0] + 0.5) + (this.slant ? 3 : 0); },
    rowX(r) { return U * this.slant * this.place(r * this.shape.columns)[0] - NAMES / 2; },
    columnX(c) { return U * (this.place(c)[1] + 0.5 + this.slant * (this.shape.rows - 1)); },
    turnOver() {
      this.flipped = !this.flipped;
      try { sessionStorage.setItem(FLIPPED, this.flipped ? "yes" : "no"); } catch { /* storage is off */ }
    },
    at(p) { return `translate(${this.x(p) - 20} ${this.y(p) - 20})`; },
    centre(m) {
      const n = m.source === null ? m.points.length : 1;
      const sum = (f) => m.points.slice(0, n).reduce((total, p) => total + f(p), 0) / n;
      return [sum(this.x), sum(this.y)];
    },
    hexagon(p) {
      const side = U / Math.sqrt(3);
      return [30, 90, 150, 210, 270, 330].map((angle) => {
        const a = (angle * Math.PI) / 180;
        return `${this.x(p) + side * Math.cos(a)},${this.y(p) + side * Math.sin(a)}`;
      }).join(" ");
    },
    arrow(from, to, width) {
      const [ax, ay, bx, by] = [this.x(from), this.y(from), this.x(to), this.y(to)];
      const long = Math.hypot(bx - ax, by - ay) || 1;
      const [ux, uy] = [(bx - ax) / long, (by - ay) / long];
      const at = (along, aside) => `${ax + ux * along - uy * aside} ${ay + uy * along + ux * aside}`;
      const [w, neck, tip] = [width / 2, long - 8 - width, long - 4];
      return `M${at(8, w)}L${at(neck, w)}L${at(neck, w + 4)}L${at(tip, 0)}L${at(neck, -w - 4)}L${at(neck, -w)}L${at(8, -w)}Z`;
    },
    // The picture of a piece in 40 by 40 units; the glyph is text of the game and is escaped.
    picture(owner, glyph) {
      const fill = ["var(--first)", "var(--second)"][owner] || "var(--rule)";
      if (this.shape.pieces == "marks") {
        return owner == 0
          ? `<path d="M10 10L30 30M30 10L10 30" stroke="${fill}" stroke-width="5" stroke-linecap="round"/>`
          : `<circle cx="20" cy="20" r="11" fill="none" stroke="${fill}" stroke-width="5"/>`;
      }
      const path = this.shape.pieces == "chess" && PATHS[glyph.replace("~", "").toLowerCase()];
      if (path) return `<path transform="translate(-4 -3.6) scale(1.2)" d="${path}" fill="${fill}" stroke="${owner ? "#f5f5f0" : "var(--edge)"}" stroke-width="1.3"/>`;
      if (owner < 0 && this.shape.pieces == "stones") {
        return `<rect x="3" y="3" width="34" height="34" rx="3" fill="${fill}"/>`;
      }
      const radius = this.shape.style == "lines" ? 18.5 : 16;
      const ring = this.shape.style == "frame" && owner == 1 ? `<circle cx="20" cy="20" r="10" fill="none" stroke="var(--edge)" stroke-opacity="0.45" stroke-width="2"/>` : "";
      const disc = `<circle cx="20" cy="20" r="${radius}" fill="${fill}" stroke="var(--edge)" stroke-width="1"/>${ring}`;
      if (this.shape.pieces == "stones" || !glyph) return disc;
      const ink = owner == (this.shape.white_first ? 1 : 0) ? "#fff" : "#111";
      const safe = glyph.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
      return `${disc}<text x="20" y="20" font-size="18" font-weight="600" fill="${ink}">${safe}</text>`;
    },
    // The letter of the piece that a pawn becomes, while one of them is to be chosen.
    promoted(a) {
      const found = this.choices.length && this.shape.pieces == "chess" && /=([A-Z])/.exec(a.text);
      return found ? found[1] : "";
    },
    share(action) {
      const mark = this.byMark.get(action);
      return mark && mark.label ? ` ${mark.label}` : "";
    },
    // The actions of choosing a point: moves of a selected piece, otherwise placements there.
    meant(p, beside) {
      if (this.selected !== null) {
        const moved = this.actions.filter((a) => a.source === this.selected && a.points[0] === p);
        if (moved.length) return moved;
      }
      const inColumn = (a) => this.shape.style == "frame" && a.points.length && a.points[0] % this.shape.columns == p % this.shape.columns;
      const found = this.actions.filter((a) => a.source === null && (a.points.includes(p) || inColumn(a)));
      if (found.length < 2 || !beside || found.some((a) => a.points.length < 2)) return found;
      const far = (a) => Math.hypot(this.centre(a)[0] - beside.x, this.centre(a)[1] - beside.y);
      return [found.reduce((near, a) => (far(a) < far(near) ? a : near))];
    },
    choose(p, beside) {
      const meant = this.meant(p, beside);
      this.choices = [];
      if (meant.length == 1) return this.play(meant[0].action);
      if (meant.length > 1) {
        this.choices = meant;
        this.$nextTick(() => this.$el.querySelector(".off button")?.focus());
        return;
      }
      this.selected = this.selected !== p && this.actions.some((a) => a.source === p) ? p : null;
    },
    play(action) {
      if (!this.byAction.has(action)) return;
      if (this.choices.length) this.$el.focus({ preventScroll: true }); // their buttons are removed
      this.selected = null; this.choices = [];
      this.$emit("play", action);
    },
    aim(actions) {
      this.aimed = actions;
      const one = actions.length == 1 ? actions[0].action : null;
      this.said = actions.map((a) => a.text + this.share(a.action)).join(", ");
      if (one !== this.hovered) { this.hovered = one; this.$emit("hover", one); }
    },
    leave(event) {
      if (event.type == "blur") this.cursor = null;
      this.aim([]);
    },
    under(event) {
      const matrix = this.$refs.svg.getScreenCTM();
      const beside = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
      let [point, near] = [null, U * 0.6];
      for (const p of this.points) {
        const far = Math.hypot(this.x(p) - beside.x, this.y(p) - beside.y);
        if (far < near) [point, near] = [p, far];
      }
      return { point, beside, cell: matrix.a * U };
    },
    press(event) {
      this.hasDropped = false;
      if (!this.playable || !event.isPrimary || event.button) return;
      const { point } = this.under(event);
      if (point === null || !this.actions.some((a) => a.source === point)) return;
      this.drag = { point, from: [event.clientX, event.clientY], at: null };
    },
    hold(event) { if (this.drag) event.preventDefault(); }, // a finger moves the piece, not the page
    drop(event) {
      const drag = this.drag;
      this.drag = null;
      if (!drag || !drag.at) return; // a click follows
      this.hasDropped = true;
      const { point, beside } = this.under(event);
      if (point === drag.point) return; // it stays selected
      if (point !== null && this.targets.includes(point)) this.choose(point, beside);
      else this.selected = null;
    },
    move(event) {
      const { point, beside } = this.under(event);
      if (this.drag && event.isPrimary) {
        const [x, y] = this.drag.from;
        if (!this.drag.at && Math.hypot(event.clientX - x, event.clientY - y) < DRAG) return;
        if (!this.drag.at) {
          this.$refs.svg.setPointerCapture(event.pointerId);
          this.selected = this.drag.point; this.choices = [];
        }
        this.drag.at = beside;
        return;
      }
      if (event.pointerType == "touch") return;
      this.aim(point === null ? [] : this.meant(point, beside));
    },
    click(event) {
      if (this.hasDropped) return; // it ends a drag
      const { point, beside, cell } = this.under(event);
      if (point === null) return;
      const meant = this.meant(point, beside);
      // A finger is wider than a small cell: the first touch aims, the second one plays.
      const aimsFirst = event.pointerType == "touch" && cell < 32 && meant.length == 1 && this.hovered !== meant[0].action;
      this.cursor = aimsFirst ? point : null;
      if (!this.playable || aimsFirst) return this.aim(meant);
      this.choose(point, beside);
    },
    key(event) {
      if (event.key == "Escape" && this.choices.length) {
        this.selected = null; this.choices = [];
        return this.$el.focus({ preventScroll: true });
      }
      if (!this.playable || event.target !== this.$el || event.altKey || event.ctrlKey || event.metaKey) return;
      const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (way && this.shape.style != "text") {
        event.preventDefault();
        this.walk(way);
      } else if (event.key == "Enter" || event.key == " ") {
        event.preventDefault();
        if (this.cursor !== null) this.choose(this.cursor, null);
      } else if (event.key == "Escape") {
        this.selected = null; this.choices = []; this.cursor = null; this.aim([]);
      }
    },
    // The cursor moves in that direction to the nearest point with an action.
    walk([dx, dy]) {
      const open = this.points.filter((p) => this.meant(p, null).length || this.actions.some((a) => a.source === p));
      if (!open.length) return;
      if (this.cursor === null) {
        this.cursor = open.reduce((near, p) => (this.fromMiddle(p) < this.fromMiddle(near) ? p : near));
      } else {
        const cost = (p) => {
          const [x, y] = [this.x(p) - this.x(this.cursor), this.y(p) - this.y(this.cursor)];
          const along = x * dx + y * dy;
          return along > 1 ? along + 3 * Math.abs(x * dy + y * dx) : Infinity;
        };
        const next = open.reduce((near, p) => (cost(p) < cost(near) ? p : near));
        if (cost(next) < Infinity) this.cursor = next;
      }
      this.aim(this.meant(this.cursor, null));
    },
    fromMiddle(p) { return Math.hypot(this.x(p) - this.wide / 2, this.y(p) - this.high / 2); },
  },
};
