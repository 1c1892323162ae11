// The looks of the parts, once in each bundle that has them.

import "./engine.css";
