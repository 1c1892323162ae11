// PageTable: requests → token slots → pages, and the kernel that builds the page table, access by access.

import { defineWidget } from "@sglab/core";
import "./page_table.css";
import type { PAGE_TABLE } from "./protocol";
import { PageTableView } from "./view";

export default defineWidget<typeof PAGE_TABLE>({
  name: "page_table",
  version: 2,
  render: (context) => {
    new PageTableView(context);
  },
});
