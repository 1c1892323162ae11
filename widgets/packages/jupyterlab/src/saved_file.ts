// `.sglab` files: sglab/widgets/recordings.py writes them. A file is data: what draws it comes with the extension.

import type { SavedTrace } from "@sglab/protocol";

const FORMAT = 1;

export interface Recording {
  title: string;
  widgets: SavedTrace[];
}

/** The recording in a file's text; an error whose message says what is wrong with the file and what to do. */
export function readRecording(text: string): Recording {
  let content: { sglab?: unknown; format?: unknown; title?: unknown; widgets?: unknown };
  try {
    content = JSON.parse(text);
  } catch {
    throw new Error(
      "This file is no recording of sglab: it is not JSON, or was cut short. Save the widget again.",
    );
  }
  if (content?.sglab !== "recording" || !Array.isArray(content.widgets))
    throw new Error('This file is no recording of sglab. widget.save("name.sglab") writes one.');
  if (content.format !== FORMAT)
    throw new Error(
      `This recording has format ${content.format}; this JupyterLab extension reads format ${FORMAT}. ` +
        "Open it with the sglab that wrote it, or save it again with one version.",
    );
  for (const each of content.widgets)
    if (typeof each?.widget !== "string" || !/^[a-z_]+$/.test(each.widget) || typeof each.state !== "object")
      throw new Error("This recording holds something that is no widget. Save it again.");
  if (!content.widgets.length) throw new Error("This recording holds no widget. Save it again.");
  for (const { widget, state, tensors } of content.widgets)
    if (typeof state?.header?.title !== "string" || typeof tensors !== "object" || tensors === null)
      throw new Error(
        `This recording lacks what its ${widget} is drawn from: it is damaged. Save the widget again.`,
      );
  return { title: String(content.title ?? "sglab"), widgets: content.widgets };
}
