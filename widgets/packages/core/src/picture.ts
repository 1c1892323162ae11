// A widget's picture as a file: what is shown, its header and badge, without the controls. Canvases become images.

import { h } from "./dom";
import { withPixels } from "./pixels";

const HTML = "http://www.w3.org/1999/xhtml";
const MARGIN = 8;
const CONTROLS =
  ".sg-control, .sg-toolbar, .sg-more, .sg-tour, .sg-notice, .sg-grip, .sg-spoken, .sg-tooltip, dialog";
const PRESSED = ".sg-slider-box, .sg-transport .sg-buttons, .sg-header button, [data-no-picture]";

export interface Picture {
  svg: string;
  width: number;
  height: number;
}

/** The widget at `root` as a self-contained SVG, in whole: what scrolls is unrolled as far as the page has drawn it. */
export function pictureOf(root: HTMLElement): Picture {
  const { width, height: shown } = root.getBoundingClientRect();
  const copy = root.cloneNode(true) as HTMLElement;
  copyState(root, copy);
  for (const each of copy.querySelectorAll(`${CONTROLS}, ${PRESSED}`)) each.remove();
  copy.removeAttribute("tabindex");
  // a share of the window would be one of the picture there
  copy.style.cssText += `;${variables(root)};--sg-max-height:${shown}px;width:${width}px;margin:0;max-height:none`;
  const height = Math.ceil(measured(root, copy));
  const style = document.createElementNS(HTML, "style");
  style.textContent = `${stylesOf(root)}\n.sg-widget * { scrollbar-width: none; }`;
  const holder = document.createElementNS(HTML, "div");
  holder.append(style, copy);
  const text = new XMLSerializer().serializeToString(holder);
  const size = [Math.ceil(width) + 2 * MARGIN, height + 2 * MARGIN] as const;
  const ground = getComputedStyle(root).backgroundColor;
  return {
    width: size[0],
    height: size[1],
    svg:
      `<svg xmlns="http://www.w3.org/2000/svg" width="${size[0]}" height="${size[1]}" viewBox="0 0 ${size[0]} ${size[1]}">` +
      `<rect width="100%" height="100%" fill="${ground}"/>` +
      `<foreignObject x="${MARGIN}" y="${MARGIN}" width="${Math.ceil(width)}" height="${height}">${text}</foreignObject></svg>`,
  };
}

/** The same as pixels, `scale` of them per CSS pixel. */
export async function pixelsOf(picture: Picture, scale: number, type: string): Promise<string> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(picture.svg)}`;
  await image.decode();
  const canvas = h("canvas", {
    width: Math.round(picture.width * scale),
    height: Math.round(picture.height * scale),
  });
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL(type, 0.85);
}

/** Offers a file to the reader. */
export async function download(root: HTMLElement, kind: "png" | "svg"): Promise<void> {
  const ratio = Math.max(2, devicePixelRatio);
  const picture = await withPixels(root, ratio, () => pictureOf(root));
  const title = root.querySelector(".sg-title")?.textContent ?? "sglab";
  const link = h("a", { download: `${title.toLowerCase().replaceAll(/\W+/g, "-")}.${kind}` });
  link.href =
    kind === "png"
      ? await pixelsOf(picture, ratio, "image/png")
      : URL.createObjectURL(new Blob([picture.svg], { type: "image/svg+xml" }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** What cloning leaves out: pixels of canvases, where things were scrolled to, what fields hold. */
function copyState(from: Element, to: Element): void {
  const before = [...from.querySelectorAll<HTMLElement>("*")];
  const after = [...to.querySelectorAll<HTMLElement>("*")];
  before.forEach((each, i) => {
    const made = after[i] as HTMLElement;
    if (each instanceof HTMLCanvasElement) {
      const { width, height } = each.getBoundingClientRect();
      const image = h("img", {
        src: each.width && each.height ? each.toDataURL() : "",
        class: each.className,
      });
      image.style.cssText = `${each.style.cssText};width:${width}px;height:${height}px;display:block`;
      made.replaceWith(image);
    } else if (each instanceof HTMLSelectElement) {
      const text = each.selectedOptions[0]?.textContent ?? "";
      made.replaceWith(h("span", { class: "sg-muted" }, text));
    } else if (each instanceof HTMLInputElement) {
      made.setAttribute("value", each.value);
      made.toggleAttribute("checked", each.checked);
    } else if (each.scrollTop || each.scrollLeft) {
      const inner = made.firstElementChild as HTMLElement | null;
      if (inner && !each.querySelector("canvas")) {
        inner.style.marginTop = `${-each.scrollTop}px`;
        inner.style.marginLeft = `${-each.scrollLeft}px`;
      }
      made.style.overflow = "hidden";
    }
  });
}

/** How high the copy is by itself, beside the original. */
function measured(root: HTMLElement, copy: HTMLElement): number {
  copy.style.position = "absolute";
  copy.style.visibility = "hidden";
  root.parentElement?.append(copy);
  const { height } = copy.getBoundingClientRect();
  copy.remove();
  copy.style.position = "relative";
  copy.style.visibility = "visible";
  return height;
}

function variables(root: HTMLElement): string {
  const style = getComputedStyle(root);
  const names = [
    "text",
    "muted",
    "background",
    "surface",
    "border",
    "focus",
    "error",
    "warning",
    "ui-font",
    "code-font",
  ];
  return names.map((name) => `--sg-${name}:${plain(style.getPropertyValue(`--sg-${name}`))}`).join(";");
}

/** An image knows no fonts of the system by these names. */
function plain(value: string): string {
  return value
    .replace(/system-ui|-apple-system|BlinkMacSystemFont/g, "sans-serif")
    .replace("ui-monospace", "monospace");
}

/** The style sheets that speak of widgets. */
function stylesOf(root: HTMLElement): string {
  const place = root.getRootNode() as Document | ShadowRoot;
  const sheets = [
    ...document.styleSheets,
    ...(place === document ? [] : place.styleSheets),
    ...place.adoptedStyleSheets,
  ];
  const texts = sheets.map((sheet) => {
    try {
      // as written where that is known: rules lose a `font` with variables when they are read back
      const written = sheet.ownerNode instanceof HTMLStyleElement ? sheet.ownerNode.textContent : "";
      const text = written || Array.from(sheet.cssRules, (rule) => rule.cssText).join("\n");
      return text.includes(".sg-widget") ? text : "";
    } catch {
      return ""; // of another origin
    }
  });
  return [...new Set(texts)].join("\n");
}
