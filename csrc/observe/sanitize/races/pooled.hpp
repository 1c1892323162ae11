#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <unordered_map>
#include <utility>

namespace sglab::emu::races {

namespace detail {

struct FreeBlock {
  FreeBlock* next;
};

constexpr std::size_t kPoolStep = 64;
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kPoolSizes = 0;  // it sees what is used after it was left
#else
constexpr std::size_t kPoolSizes = 192;
#endif

inline thread_local bool pool_over = false;  // the thread is ending

struct PoolLists {
  FreeBlock* first[kPoolSizes + 1] = {};  // by size, in steps
  ~PoolLists() {
    pool_over = true;
    for (FreeBlock* each : first) {
      while (each != nullptr) ::operator delete(std::exchange(each, each->next));
    }
  }
};
inline thread_local PoolLists pool_lists;

}  // namespace detail

// Memory of what threads know: mostly small, made and left by the thousand. It is kept for the next that
// asks, by each host thread; of a size malloc keeps only a few at hand.
class Pool {
 public:
  static void* take(std::size_t bytes) {
    const std::size_t steps = steps_of(bytes);
    if (steps > detail::kPoolSizes || detail::pool_over) return ::operator new(steps * detail::kPoolStep);
    detail::FreeBlock*& first = detail::pool_lists.first[steps];
    if (first == nullptr) return ::operator new(steps * detail::kPoolStep);
    return std::exchange(first, first->next);
  }
  static void leave(void* memory, std::size_t bytes) {
    const std::size_t steps = steps_of(bytes);
    if (steps > detail::kPoolSizes || detail::pool_over) return ::operator delete(memory);
    detail::FreeBlock*& first = detail::pool_lists.first[steps];
    first = ::new (memory) detail::FreeBlock{first};
  }

 private:
  static constexpr std::size_t steps_of(std::size_t bytes) {
    return (bytes + detail::kPoolStep - 1) / detail::kPoolStep;
  }
};

template <class T>
struct Pooled {
  using value_type = T;
  Pooled() = default;
  template <class U>
  Pooled(const Pooled<U>&) {}
  T* allocate(std::size_t count) { return static_cast<T*>(Pool::take(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t count) { Pool::leave(memory, count * sizeof(T)); }
  bool operator==(const Pooled&) const { return true; }
};

template <class Key, class Value>
using PooledMap =
    std::unordered_map<Key, Value, std::hash<Key>, std::equal_to<Key>, Pooled<std::pair<const Key, Value>>>;

template <class T, class... Arguments>
std::shared_ptr<T> make_pooled(Arguments&&... arguments) {
  return std::allocate_shared<T>(Pooled<T>{}, std::forward<Arguments>(arguments)...);
}

}  // namespace sglab::emu::races
