export type { Hit, Links, Profile, TimelineModel, TimelineRow } from "./model";
export { Pyramid } from "./pyramid";
export type { Range } from "./range";
export { ALIVE } from "./scene";
export { firstEndingAfter, NO_SPANS, packLanes, pick, type Spans, spanAt } from "./spans";
export { Timeline, type TimelineOptions } from "./timeline";
