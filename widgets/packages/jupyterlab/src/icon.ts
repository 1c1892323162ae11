import { LabIcon } from "@jupyterlab/ui-components";

// Pages of a pool, and the one that is read; the colours are the theme's.
const SVG = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 16 16">
<g class="jp-icon3" fill="#616161"><path d="M1 1h6v6H1zm1.2 1.2v3.6h3.6V2.2zM9 1h6v6H9zm1.2 1.2v3.6h3.6V2.2zM1 9h6v6H1zm1.2 1.2v3.6h3.6v-3.6z"/>
<path d="M9 9h6v6H9z"/></g></svg>`;

export const icon = new LabIcon({ name: "sglab:icon", svgstr: SVG });

/** The same for the launcher's tiles of notebooks, which have no other. */
export const iconUrl = `data:image/svg+xml,${encodeURIComponent(SVG)}`;
