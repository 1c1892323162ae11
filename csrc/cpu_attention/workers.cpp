#include "cpu_attention/workers.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <thread>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

namespace sglab::cpu_attention {
namespace {

long process() {
#if defined(__unix__) || defined(__APPLE__)
  return static_cast<long>(getpid());
#else
  return 0;
#endif
}

class Workers {
 public:
  void run(int count, int threads, const std::function<void(int)>& work) {
    const std::unique_lock<std::mutex> alone(callers_, std::try_to_lock);
    const int helpers = alone ? std::min(std::min(threads, count) - 1, grown(threads - 1)) : 0;
    if (helpers <= 0) {
      for (int i = 0; i < count; ++i) work(i);
      return;
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      work_ = &work;
      count_ = count;
      next_ = 0;
      wanted_ = busy_ = helpers;
      ++round_;
    }
    wake_.notify_all();
    take(work);
    std::unique_lock<std::mutex> lock(mutex_);
    wanted_ = std::max(0, wanted_);
    busy_ -= wanted_;  // who has not come by now need not
    wanted_ = 0;
    done_.wait(lock, [&] { return busy_ == 0; });
  }

 private:
  // How many helpers there are, after trying to have so many.
  int grown(int helpers) {
    try {
      for (; size_ < helpers; ++size_) std::thread([this] { help(); }).detach();
    } catch (const std::system_error&) {  // the system has no more: fewer do as well
    }
    return size_;
  }

  void help() {
    std::uint64_t seen = 0;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return round_ != seen && wanted_ > 0; });
      seen = round_;
      --wanted_;
      const std::function<void(int)>& work = *work_;
      lock.unlock();
      take(work);
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  void take(const std::function<void(int)>& work) {
    for (int i = next_++; i < count_; i = next_++) work(i);
  }

  std::mutex callers_, mutex_;
  std::condition_variable wake_, done_;
  const std::function<void(int)>* work_ = nullptr;
  int count_ = 0, wanted_ = 0, busy_ = 0, size_ = 0;
  std::uint64_t round_ = 0;
  std::atomic<int> next_{0};
};

}  // namespace

void share_out(int count, int threads, const std::function<void(int)>& work) {
  // Never destroyed: its threads run until the process ends. A fork's child has none of them and starts its
  // own.
  static Workers* workers = new Workers;
  static std::atomic<long> owner{process()};
  if (threads > 1 && owner != process()) {
    workers = new Workers;
    owner = process();
  }
  workers->run(count, threads, work);
}

}  // namespace sglab::cpu_attention
