#pragma once

#include <functional>

namespace sglab::cpu_attention {

// Runs work(0) ... work(count - 1), each once, on up to `threads` threads, the caller among them; which
// thread runs which is left open. Threads are kept for the next call. A caller that finds them busy works
// alone.
void share_out(int count, int threads, const std::function<void(int)>& work);

}  // namespace sglab::cpu_attention
