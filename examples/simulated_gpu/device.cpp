// An asynchronous device for torch that no machine has: it keeps time and computes nothing.
//
// torch sees it as a PrivateUse1 backend: torch.Event and torch.Stream work on it unchanged. As on
// a real accelerator the host enqueues and goes on, and each stream does its work in order. A
// "kernel" takes a set time. So the device knows at the launch when a kernel will begin and end:
// it has no thread that the CPU's scheduler could hold up, and its times are exact however busy
// the machine is. The host sees of it what it sees of a GPU: whether the time has come.
//
// The device keeps a log of what it did, by the host's CLOCK_MONOTONIC, to hold measurements
// against, and counts what a tracer must not do: synchronize calls, queries during a capture,
// events that became graph nodes.
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

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <deque>
#include <limits>
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
constexpr int64_t kSpinNs = 100000;       // sleep is too coarse for the end of a wait
constexpr int64_t kLongestSleepNs = 1000000000;
constexpr double kResolutionNs = 500;     // of event times, as the CUDA runtime states it
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr size_t kLogEntries = 200000;    // the newest
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
    if (left > kSpinNs)
      std::this_thread::sleep_for(
          std::chrono::nanoseconds(std::min(left - kSpinNs, kLongestSleepNs)));
}

// Lets the calling thread go before all others, where we may: a server has a core of its own.
void be_punctual() {
  prctl(PR_SET_TIMERSLACK, 1);
  sched_param first{.sched_priority = sched_get_priority_min(SCHED_FIFO)};
  if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &first) != 0)
    setpriority(PRIO_PROCESS, 0, -20);
}

std::atomic<int64_t> syncs{0}, records{0}, queries{0}, captured_records{0}, refused{0};
std::atomic<int64_t> to_lose{0}, losing_stream{0};
std::atomic<bool> broken{false}, blocking{false};
std::atomic<double> drift{0};

// The device's own clock, of another rate and zero than the host's.
double device_ns(int64_t host_ns) {
  double time = static_cast<double>(host_ns - 1000000007) * (1 + drift.load());
  return std::round(time / kResolutionNs) * kResolutionNs;
}

void check_healthy() { TORCH_CHECK(!broken, "simulated GPU error: an illegal access was seen"); }

struct Event {
  std::atomic<int64_t> time_ns{0};  // when the device passes it; never recorded: long ago
  bool timing = false, captured = false;

  bool is_done() const { return now_ns() >= time_ns; }
};
using EventPtr = std::shared_ptr<Event>;
EventPtr event_of(void* handle) { return *static_cast<EventPtr*>(handle); }

struct Kernel {
  std::string name;
  int64_t duration_ns;
};

struct LogEntry {
  std::string name;
  StreamId stream;
  int64_t start_ns, end_ns;
};

std::mutex device_mutex;  // for what follows
std::deque<LogEntry> log_entries;
std::vector<int64_t> free_ns(1);  // by stream: when it has done all that was enqueued

// Gives when the kernel ends.
int64_t enqueue(StreamId stream, const Kernel& kernel) {
  std::lock_guard<std::mutex> lock(device_mutex);
  auto start_ns = std::max(now_ns(), free_ns[stream]);
  free_ns[stream] = start_ns == kNever ? kNever : start_ns + kernel.duration_ns;
  log_entries.push_back({kernel.name, stream, start_ns, free_ns[stream]});
  if (log_entries.size() > kLogEntries) log_entries.pop_front();
  return free_ns[stream];
}
int64_t enqueue_event(StreamId stream) {
  std::lock_guard<std::mutex> lock(device_mutex);
  return free_ns[stream] = std::max(now_ns() + kIdleLatencyNs, free_ns[stream]);
}
void enqueue_wait(StreamId stream, int64_t until_ns) {
  std::lock_guard<std::mutex> lock(device_mutex);
  free_ns[stream] = std::max(free_ns[stream], until_ns);
}
int64_t done_ns(StreamId stream) {
  std::lock_guard<std::mutex> lock(device_mutex);
  return free_ns[stream];
}
int64_t all_done_ns() {
  std::lock_guard<std::mutex> lock(device_mutex);
  return *std::max_element(free_ns.begin(), free_ns.end());
}
StreamId new_stream() {
  std::lock_guard<std::mutex> lock(device_mutex);
  free_ns.push_back(0);
  return static_cast<StreamId>(free_ns.size()) - 1;
}
Stream stream_of(StreamId id) { return Stream(Stream::UNSAFE, kDevice, id); }
thread_local StreamId current = 0;

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
  TORCH_CHECK(false,
              "simulated GPU error: operation not permitted when stream is capturing (", what,
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
    return now_ns() >= done_ns(stream.id());
  }
  void synchronizeStream(const Stream& stream) const override {
    synchronize("stream synchronize");
    sleep_until(done_ns(stream.id()));
  }
  void synchronizeDevice(const DeviceIndex) const override {
    synchronize("device synchronize");
    sleep_until(all_done_ns());
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
    event->captured = capturing == stream.id();
    if (event->captured) {
      ++captured_records;
    } else if (to_lose > 0 && stream.id() == losing_stream) {
      --to_lose;
      event->time_ns = kNever;
    } else {
      event->time_ns = enqueue_event(stream.id());
    }
  }
  void block(void* handle, const Stream& stream) const override {
    if (handle) enqueue_wait(stream.id(), event_of(handle)->time_ns);
  }
  bool queryEvent(void* handle) const override {
    ++queries;
    refuse_in_capture("event query");
    check_healthy();
    if (!handle) return true;
    auto event = event_of(handle);
    TORCH_CHECK(!event->captured, "simulated GPU error: the event was last recorded in a capture");
    return event->is_done();
  }
  void synchronizeEvent(void* handle) const override {
    synchronize("event synchronize");
    if (handle) sleep_until(event_of(handle)->time_ns);
  }
  double elapsedTime(void* first, void* second, const DeviceIndex) const override {
    TORCH_CHECK(first && second, "simulated GPU error: an event was never recorded");
    check_healthy();
    auto start = event_of(first), end = event_of(second);
    TORCH_CHECK(start->timing && end->timing, "simulated GPU error: an event has no timing");
    TORCH_CHECK(start->is_done() && end->is_done(), "simulated GPU error: device not ready");
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

// Where launches block, as with CUDA_LAUNCH_BLOCKING=1, the host goes on when the kernel has ended.
void start(const Kernel& kernel) {
  auto end_ns = enqueue(current, kernel);
  if (blocking) sleep_until(end_ns);
}

// Enqueues a kernel on the current stream.
void launch(const std::string& name, double us) {
  Kernel kernel{name, static_cast<int64_t>(us * 1000)};
  if (capturing == current)
    graphs.back().kernels.push_back(kernel);
  else
    start(kernel);
}

void begin_capture() {
  TORCH_CHECK(capturing == kNoStream, "simulated GPU error: a capture runs already");
  graphs.emplace_back();
  spoiled = false;
  capturing = current;
}

size_t end_capture() {
  capturing = kNoStream;
  TORCH_CHECK(!spoiled, "simulated GPU error: the capture was spoiled by another call");
  return graphs.size() - 1;
}

void replay(size_t graph) {
  for (auto& kernel : graphs.at(graph).kernels) start(kernel);
}

py::dict counters() {
  using namespace py::literals;
  return py::dict("syncs"_a = syncs.load(), "records"_a = records.load(),
                  "queries"_a = queries.load(), "captured_records"_a = captured_records.load(),
                  "refused"_a = refused.load());
}

// What has been launched since the last call; the end of the last ones may still be to come.
py::list take_log() {
  std::deque<LogEntry> taken;
  {
    std::lock_guard<std::mutex> lock(device_mutex);
    taken.swap(log_entries);
  }
  py::list list;
  for (auto& entry : taken)
    list.append(py::make_tuple(entry.name, entry.stream, entry.start_ns, entry.end_ns));
  return list;
}

}  // namespace

PYBIND11_MODULE(simulated_gpu, m) {
  using without_gil = py::call_guard<py::gil_scoped_release>;
  m.def("launch", &launch, py::arg("name"), py::arg("us"), without_gil());
  m.def("launch_blocking", [](bool wanted) { blocking = wanted; });
  m.def("done_ns", [] { return done_ns(current); });
  m.def("wait_until", &sleep_until, py::arg("ns"), without_gil());
  m.def("count_sync", [] { ++syncs; });
  m.def("counters", &counters);
  m.def("take_log", &take_log);
  m.def("begin_capture", &begin_capture);
  m.def("end_capture", &end_capture);
  m.def("replay", &replay, without_gil());
  m.def("is_current_stream_capturing", [] { return capturing == current; });
  m.def("lose_records", [](int64_t count, int64_t stream) {
    losing_stream = stream;
    to_lose = count;
  });
  m.def("break_device", [] { broken = true; });
  m.def("be_punctual", &be_punctual);
  m.def("set_drift_ppm", [](double ppm) { drift = ppm * 1e-6; });
}
