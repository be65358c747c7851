// An asynchronous device for torch that runs on threads of the CPU, to test device timing with.
//
// torch sees it as a PrivateUse1 backend: torch.Event and torch.Stream work on it unchanged. As on
// a real accelerator the host enqueues and goes on; one thread per stream does the work in order,
// without the GIL. A "kernel" takes a set time and does nothing else. The device keeps a log of
// what it did, by the host's CLOCK_MONOTONIC, to hold measurements against, and counts what a
// tracer must not do: synchronize calls, queries during a capture, events that became graph nodes.
//
// What it takes over from CUDA: an event that was never recorded is complete; elapsed_time of an
// incomplete event fails; its result is a float32 of milliseconds with a resolution of 0.5 us; a
// query while any stream is captured fails and spoils the capture; an event recorded into a
// capture cannot be queried; an error is sticky. Its clock is not the host's: it drifts.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace py = pybind11;
using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::EventFlag;
using c10::Stream;
using c10::StreamId;

namespace {

constexpr int64_t kIdleLatencyNs = 5000;  // an event on an idle stream is done so long after
constexpr int64_t kSpinNs = 40000;        // sleep is too coarse for the end of a kernel
constexpr double kResolutionNs = 500;     // of event times, as the CUDA runtime states it
constexpr StreamId kNoStream = -1;
const Device kDevice(DeviceType::PrivateUse1, 0);

// CLOCK_MONOTONIC on Linux.
int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void sleep_until(int64_t time_ns) {
  int64_t left;
  while ((left = time_ns - now_ns()) > 0)
    if (left > kSpinNs) std::this_thread::sleep_for(std::chrono::nanoseconds(left - kSpinNs));
}

// Lets the calling thread go before all others, where we may: a device does not wait for the CPU's
// scheduler, and a server has a core of its own. Devices go before hosts.
void be_punctual(int above_lowest) {
  prctl(PR_SET_TIMERSLACK, 1);
  sched_param first{.sched_priority = sched_get_priority_min(SCHED_FIFO) + above_lowest};
  if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &first) != 0)
    setpriority(PRIO_PROCESS, 0, -20);
}

std::atomic<int64_t> syncs{0}, records{0}, queries{0}, captured_records{0}, refused{0};
std::atomic<int64_t> to_lose{0}, losing_stream{0};
std::atomic<bool> broken{false};
std::atomic<double> drift{0};

// The device's own clock, of another rate and zero than the host's.
double device_ns(int64_t host_ns) {
  double time = static_cast<double>(host_ns - 1000000007) * (1 + drift.load());
  return std::round(time / kResolutionNs) * kResolutionNs;
}

void check_healthy() { TORCH_CHECK(!broken, "fakestream error: an illegal access was seen"); }

struct Event {
  std::mutex mutex;
  std::condition_variable done_changed;
  uint64_t recorded = 0, done = 0;
  int64_t time_ns = 0;
  bool timing = false, captured = false;

  void complete(uint64_t version, int64_t when_ns) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      time_ns = when_ns;
      done = version;
    }
    done_changed.notify_all();
  }
  bool is_done() { return done == recorded && now_ns() >= time_ns; }
  void wait() {
    std::unique_lock<std::mutex> lock(mutex);
    auto version = recorded;
    done_changed.wait(lock, [&] { return done >= version; });
    lock.unlock();
    sleep_until(time_ns);
  }
};
using EventPtr = std::shared_ptr<Event>;
EventPtr event_of(void* handle) { return *static_cast<EventPtr*>(handle); }

struct LogEntry {
  std::string name;
  StreamId stream;
  int64_t start_ns, end_ns;
};
std::mutex log_mutex;
std::vector<LogEntry> log_entries;

struct Kernel {
  std::string name;
  int64_t duration_ns;
};

class Queue {
 public:
  explicit Queue(StreamId id) : id_(id), thread_([this] { work(); }) { thread_.detach(); }

  uint64_t push(std::function<void()> operation) {
    std::lock_guard<std::mutex> lock(mutex_);
    operations_.push_back(std::move(operation));
    changed_.notify_all();
    return ++pushed_;
  }
  uint64_t launch(const Kernel& kernel) {
    auto enqueued_ns = now_ns();
    return push([=, this] {
      auto start_ns = std::max(now_ns(), free_ns_.load());
      sleep_until(start_ns + kernel.duration_ns);
      auto end_ns = now_ns();
      free_ns_ = end_ns;
      std::lock_guard<std::mutex> lock(log_mutex);
      log_entries.push_back({kernel.name, id_, std::max(start_ns, enqueued_ns), end_ns});
    });
  }
  // An idle device sees an event at once; a thread would first have to wake up.
  void record(EventPtr event, uint64_t version) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (pushed_ == finished_) {
      auto time_ns = std::max(now_ns() + kIdleLatencyNs, free_ns_.load());
      free_ns_ = time_ns;
      event->complete(version, time_ns);
      return;
    }
    lock.unlock();
    push([=, this] {
      event->complete(version, std::max(now_ns(), free_ns_.load()));
    });
  }
  bool idle() {
    std::lock_guard<std::mutex> lock(mutex_);
    return pushed_ == finished_ && now_ns() >= free_ns_;
  }
  uint64_t pushed() {
    std::lock_guard<std::mutex> lock(mutex_);
    return pushed_;
  }
  void wait(uint64_t operation) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return finished_ >= operation; });
  }

 private:
  void work() {
    be_punctual(1);
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return !operations_.empty(); });
      auto operation = std::move(operations_.front());
      operations_.pop_front();
      lock.unlock();
      operation();
      lock.lock();
      ++finished_;
      changed_.notify_all();
    }
  }

  StreamId id_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> operations_;
  uint64_t pushed_ = 0, finished_ = 0;
  std::atomic<int64_t> free_ns_{0};
  std::thread thread_;
};

std::mutex queues_mutex;
std::vector<Queue*> queues;  // never freed: their threads run until the process ends
thread_local StreamId current = 0;

Queue& queue_of(StreamId id) {
  std::lock_guard<std::mutex> lock(queues_mutex);
  while (static_cast<StreamId>(queues.size()) <= id) queues.push_back(new Queue(queues.size()));
  return *queues[id];
}
StreamId new_stream() {
  std::unique_lock<std::mutex> lock(queues_mutex);
  StreamId id = std::max<size_t>(queues.size(), 1);
  lock.unlock();
  queue_of(id);
  return id;
}
Stream stream_of(StreamId id) { return Stream(Stream::UNSAFE, kDevice, id); }

// A capture in CUDA's default mode: calls that look at the device are refused everywhere.
struct Graph {
  std::vector<Kernel> kernels;
};
std::atomic<StreamId> capturing{kNoStream};
std::atomic<bool> spoiled{false};
std::vector<Graph> graphs;

void refuse_in_capture(const char* what) {
  if (capturing == kNoStream) return;
  spoiled = true;
  ++refused;
  TORCH_CHECK(false, "fakestream error: operation not permitted when stream is capturing (", what,
              ")");
}

void synchronize(const char* what) {
  ++syncs;
  refuse_in_capture(what);
  check_healthy();
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  Guard() = default;
  explicit Guard(DeviceType) {}
  DeviceType type() const override { return DeviceType::PrivateUse1; }
  Device exchangeDevice(Device) const override { return kDevice; }
  Device getDevice() const override { return kDevice; }
  void setDevice(Device) const override {}
  void uncheckedSetDevice(Device) const noexcept override {}
  DeviceIndex deviceCount() const noexcept override { return 1; }

  Stream getStream(Device) const override { return stream_of(current); }
  Stream getDefaultStream(Device) const override { return stream_of(0); }
  Stream getNewStream(Device, int) const override { return stream_of(new_stream()); }
  Stream getStreamFromGlobalPool(Device, bool) const override { return stream_of(new_stream()); }
  Stream exchangeStream(Stream stream) const override {
    auto before = current;
    current = stream.id();
    return stream_of(before);
  }
  bool isStreamCapturing(const Stream& stream) const override { return capturing == stream.id(); }
  bool queryStream(const Stream& stream) const override {
    refuse_in_capture("stream query");
    check_healthy();
    return queue_of(stream.id()).idle();
  }
  void synchronizeStream(const Stream& stream) const override {
    synchronize("stream synchronize");
    auto& queue = queue_of(stream.id());
    queue.wait(queue.pushed());
  }
  void synchronizeDevice(const DeviceIndex) const override {
    synchronize("device synchronize");
    std::unique_lock<std::mutex> lock(queues_mutex);
    auto all = queues;
    lock.unlock();
    for (auto queue : all) queue->wait(queue->pushed());
  }

  void record(void** handle, const Stream& stream, const DeviceIndex,
              const EventFlag flag) const override {
    ++records;
    check_healthy();
    if (!*handle) {
      auto event = std::make_shared<Event>();
      event->timing = flag == EventFlag::BACKEND_DEFAULT;
      *handle = new EventPtr(event);
    }
    auto event = event_of(*handle);
    uint64_t version;
    {
      std::lock_guard<std::mutex> lock(event->mutex);
      event->captured = capturing == stream.id();
      if (event->captured) {
        ++captured_records;
        return;
      }
      version = ++event->recorded;
    }
    if (to_lose > 0 && stream.id() == losing_stream) {
      --to_lose;
      return;
    }
    queue_of(stream.id()).record(event, version);
  }
  void block(void* handle, const Stream& stream) const override {
    if (!handle) return;
    auto event = event_of(handle);
    queue_of(stream.id()).push([event] { event->wait(); });
  }
  bool queryEvent(void* handle) const override {
    ++queries;
    refuse_in_capture("event query");
    check_healthy();
    if (!handle) return true;
    auto event = event_of(handle);
    std::lock_guard<std::mutex> lock(event->mutex);
    TORCH_CHECK(!event->captured, "fakestream error: the event was last recorded in a capture");
    return event->is_done();
  }
  void synchronizeEvent(void* handle) const override {
    synchronize("event synchronize");
    if (handle) event_of(handle)->wait();
  }
  double elapsedTime(void* first, void* second, const DeviceIndex) const override {
    TORCH_CHECK(first && second, "fakestream error: an event was never recorded");
    check_healthy();
    auto start = event_of(first), end = event_of(second);
    if (start == end) return 0;
    std::scoped_lock lock(start->mutex, end->mutex);
    TORCH_CHECK(start->timing && end->timing, "fakestream error: an event has no timing");
    TORCH_CHECK(start->is_done() && end->is_done(), "fakestream error: device not ready");
    return static_cast<float>((device_ns(end->time_ns) - device_ns(start->time_ns)) / 1e6);
  }
  void destroyEvent(void* handle, const DeviceIndex) const noexcept override {
    delete static_cast<EventPtr*>(handle);
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return 1; }
  void setCurrentDevice(DeviceIndex) const override {}
  DeviceIndex getCurrentDevice() const override { return 0; }
  DeviceIndex exchangeDevice(DeviceIndex) const override { return 0; }
  DeviceIndex maybeExchangeDevice(DeviceIndex) const override { return 0; }
};
const int registered = (at::RegisterPrivateUse1HooksInterface(new Hooks), 0);

// Enqueues a kernel on the current stream; gives its place in the stream.
uint64_t launch(const std::string& name, double us) {
  Kernel kernel{name, static_cast<int64_t>(us * 1000)};
  if (capturing == current) {
    graphs.back().kernels.push_back(kernel);
    return 0;
  }
  return queue_of(current).launch(kernel);
}

void begin_capture() {
  TORCH_CHECK(capturing == kNoStream, "fakestream error: a capture runs already");
  graphs.emplace_back();
  spoiled = false;
  capturing = current;
}

size_t end_capture() {
  capturing = kNoStream;
  TORCH_CHECK(!spoiled, "fakestream error: the capture was spoiled by another call");
  return graphs.size() - 1;
}

uint64_t replay(size_t graph) {
  uint64_t place = 0;
  for (auto& kernel : graphs.at(graph).kernels) place = queue_of(current).launch(kernel);
  return place;
}

py::dict counters() {
  using namespace py::literals;
  return py::dict("syncs"_a = syncs.load(), "records"_a = records.load(),
                  "queries"_a = queries.load(), "captured_records"_a = captured_records.load(),
                  "refused"_a = refused.load());
}

py::list take_log() {
  std::vector<LogEntry> taken;
  {
    std::lock_guard<std::mutex> lock(log_mutex);
    taken.swap(log_entries);
  }
  py::list list;
  for (auto& entry : taken)
    list.append(py::make_tuple(entry.name, entry.stream, entry.start_ns, entry.end_ns));
  return list;
}

}  // namespace

PYBIND11_MODULE(fakestream, m) {
  m.def("launch", &launch, py::arg("name"), py::arg("us"));
  m.def("current_stream_id", [] { return current; });
  m.def("pushed", [](StreamId id) { return queue_of(id).pushed(); });
  m.def("wait", [](StreamId id, uint64_t place) { queue_of(id).wait(place); },
        py::call_guard<py::gil_scoped_release>());
  m.def("count_sync", [] { ++syncs; });
  m.def("counters", &counters);
  m.def("take_log", &take_log);
  m.def("begin_capture", &begin_capture);
  m.def("end_capture", &end_capture);
  m.def("replay", &replay);
  m.def("is_current_stream_capturing", [] { return capturing == current; });
  m.def("lose_records", [](int64_t count, int64_t stream) {
    losing_stream = stream;
    to_lose = count;
  });
  m.def("break_device", [] { broken = true; });
  m.def("be_punctual", [] { be_punctual(0); });
  m.def("set_drift_ppm", [](double ppm) { drift = ppm * 1e-6; });
}
