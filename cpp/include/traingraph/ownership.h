#pragma once

#include <memory>
#include <type_traits>

// What an object shares in, for whoever counts owners: a collector of cycles, which must know
// whether all owners of something are themselves owned by what it collects.
namespace traingraph {

class OwnershipVisitor {
 public:
  // Visits what an object of the pointer's type shares in.
  using Descend = void (*)(const void* object, OwnershipVisitor& visitor);

  virtual ~OwnershipVisitor() = default;
  // Once for each shared pointer of an object. What is left out counts as an owner that nobody
  // knows: it is kept.
  template <class T>
  void operator()(const std::shared_ptr<T>& owned) {
    if (owned == nullptr) return;
    Descend descend = nullptr;
    static_assert(
        std::is_void_v<T> || requires { sizeof(T); }, "an incomplete type hides what follows");
    if constexpr (requires(const T& object, OwnershipVisitor& to) { object.visit_owned(to); }) {
      descend = [](const void* object, OwnershipVisitor& to) {
        static_cast<const T*>(object)->visit_owned(to);
      };
    }
    visit(owned, owned.get(), descend);
  }
  template <class Pointers>
    requires requires(const Pointers& owned) { owned.begin(); }
  void operator()(const Pointers& owned) {
    for (const auto& one : owned) (*this)(one);
  }

 protected:
  // `owned` has one owner more for the time of the call. `descend` is null where nothing follows.
  virtual void visit(const std::shared_ptr<const void>& owned, const void* object,
                     Descend descend) = 0;
};

}  // namespace traingraph
