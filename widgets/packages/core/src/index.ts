export { HATCHED_FROM, sharedPaint, sizeCanvas } from "./canvas";
export { type Cell, CellGrid, type Geometry, type Rect } from "./cell_grid";
export { PythonError } from "./channel";
export {
  CanvasPaint,
  cssBackground,
  inkOn,
  type Look,
  lookOf,
  OKABE_ITO,
  OPERATION_LOOKS,
  ROLE_LOOKS,
  SvgPaint,
} from "./colors";
export { definitions } from "./definitions";
export { framed, h, replaceChanged, revealWithin, s, setAttributes, setText, uniqueId } from "./dom";
export { Disposer, Emitter } from "./emitter";
export * as format from "./format";
export { type Frame, makeFrame, type Placeholder } from "./frame";
export { type Deed, type History, historyOf } from "./history";
export type { KeyBinding } from "./keys";
export { type LegendItem, legendMark, legendScale } from "./legend";
export { formatLengths, parseLengths } from "./lengths";
export { missedMoment, selectTold } from "./mirror";
export { pictureOf, pixelsOf } from "./picture";
export { pixelRatio } from "./pixels";
export { keepPlace } from "./place";
export { failure, followRun } from "./recorded";
export { type Facet, requestsOf, type SelectionStore, sameSelection } from "./selection";
export { type WhenInSight, whenInSight } from "./sight";
export { makeSplitter, type SplitterOptions } from "./splitter";
export { type Tab, Tabs } from "./tabs";
export { type Theme, watchTheme } from "./theme";
export {
  ALIVE,
  firstEndingAfter,
  type Hit,
  type Links,
  NO_SPANS,
  type Profile,
  Pyramid,
  packLanes,
  pick,
  type Range,
  type Spans,
  spanAt,
  Timeline,
  type TimelineModel,
  type TimelineOptions,
  type TimelineRow,
} from "./timeline";
export { breakable, cutText, markedText, tokenText } from "./tokens";
export { makeTooltip, type Tooltip } from "./tooltip";
export type { TourStep } from "./tour";
export {
  type Arrival,
  countUpTo,
  type Granularity,
  type Mark,
  type Motion,
  type Track,
  Transport,
} from "./transport";
export { type Context, defineWidget } from "./widget";
export { TensorWindow } from "./window";
