// How the widget's height is divided, so that what a step reads and writes is in sight with what it is read from.

export interface Wanted {
  /** Pixels that the view may take. */
  room: number;
  /** Whether the arrays stand beside the pictures instead of below them. */
  beside: boolean;
  /** Pixels of all but the requests' rows and the matrices' rows: in the column of the pictures, in that of the arrays. */
  pictures: number;
  arrays: number;
  /** Requests, and the pixels of one's row. */
  requests: number;
  request: number;
  /** Matrices among the arrays, the most rows of one, and the pixels of a row. */
  matrices: number;
  rows: number;
  row: number;
}

export interface Heights {
  /** Pixels of the requests' rows. */
  requests: number;
  /** Rows of each matrix. */
  rows: number;
}

const LEAST_REQUESTS = 5;
const MOST_REQUESTS = 12; // while other rows need the room
const MOST_BESIDE = 24;
const LEAST_ROWS = 2;
const ROWS = 4;
const MOST_ROWS = 12;

/** First what everything needs at least, then more requests, then more rows; what is left over goes to the rows. */
export function divide(wanted: Wanted): Heights {
  const { room, beside, pictures, arrays, requests, request, matrices, rows, row } = wanted;
  const clamp = (value: number, least: number, most: number) => Math.max(least, Math.min(most, value));
  const each = Math.max(1, matrices) * row;
  const least = Math.min(LEAST_REQUESTS, requests) * request;
  if (beside)
    return {
      requests: clamp(room - pictures, least, Math.max(least, Math.min(MOST_BESIDE, requests) * request)),
      rows: clamp(
        Math.floor((room - arrays) / each),
        LEAST_ROWS,
        Math.min(MOST_ROWS, Math.max(rows, LEAST_ROWS)),
      ),
    };
  const free = room - pictures - arrays;
  const first = clamp(free - LEAST_ROWS * each, least, Math.min(MOST_REQUESTS, requests) * request);
  return {
    requests: first,
    rows: clamp(Math.floor((free - first) / each), LEAST_ROWS, Math.min(ROWS, Math.max(rows, LEAST_ROWS))),
  };
}
