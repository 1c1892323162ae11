// plotly.js with its basic charts, as a module of its own: see packages/roofline/src/plotly.ts.

export { default } from "plotly.js-basic-dist-min";
