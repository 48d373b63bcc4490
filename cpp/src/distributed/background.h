// Calls of ranks that go on while the thread that has begun them computes.
#pragma once

#include <exception>
#include <mutex>
#include <thread>

#include <traingraph/mutex.h>

namespace traingraph::distributed {

class Transport;

// Calls are made one after another, in the order in which they were begun: by a thread of its own,
// or by one that waits for them.
class Background {
 public:
  // Kept by who begins it, so that nothing is allocated.
  class Call {
   public:
    virtual ~Call() = default;

   protected:
    virtual void make() = 0;

   private:
    friend class Background;
    enum class State { none, waits, runs, done };
    State state_ = State::none;
    std::exception_ptr error_;
    Call* next_ = nullptr;
  };

  // Ends calls on this transport where they are abandoned.
  explicit Background(Transport* transport) : transport_(transport) {}
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void begin(Call& call);
  // Returns when the call is done, at once where it was not begun. Raises what it has raised, or
  // what ends a wait: then the call has ended, too.
  void finish(Call& call);
  // Both, without a change of threads.
  void make(Call& call);
  void abandon(Call& call) noexcept;

 private:
  using Lock = std::unique_lock<Mutex>;

  void try_to_start();
  void loop();
  void add(Call& call);
  // Where no call is being made and one waits.
  void make_first(Lock& lock);
  // A moment of waiting for a call that is not done, in which this thread may make one.
  void go_on(Lock& lock);

  Transport* const transport_;
  Mutex mutex_;
  Condition changed_;
  Call* first_ = nullptr;
  Call* last_ = nullptr;
  bool is_busy_ = false;  // with a call that has left the list
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace traingraph::distributed
