// PageTable: requests → token slots → pages, and the kernel that builds the page table, access by access.

import { defineWidget } from "@sglab/core";
import "./page_table.css";
import { PageTableView } from "./view";

export default defineWidget({
  name: "page_table",
  version: 2,
  render: (context) => {
    new PageTableView(context);
  },
});
