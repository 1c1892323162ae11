// Whose slots of the pool they are, in the same colours in every widget that shows the pool.

/** Apart in greyscale as well, in a light and in a dark theme; engine.css has the same for marks and shapes. */
export const HELD = {
  private: { light: "#1d4468", dark: "#c4def5" },
  protected: { light: "#8a6d1d", dark: "#c7a35a" },
};
