// The model of forebay.simulate, as a SimGrid program; ../simgrid_peer.py builds and runs it.
//
//   phases FILE callbacks|actors [--cfg=...]
//
// FILE:    targets applications horizon
//          compute-seconds work-seconds n target...      (one line for each application)
// stdout:  seconds of wall time that the simulation took, without start-up and reading
//          phases-completed io-seconds                   (one line for each application)
//
// A target is a host of speed 1, a transfer an execution on it: SimGrid divides a host equally among its
// executions. Computing is a delay, because applications never share compute nodes.
//
// `actors` is how the SimGrid manual would have it: one actor per application that sleeps, starts its
// executions and waits for them. `callbacks` has no actors and so no context switches: a kernel timer ends
// each computation and the completion signal each transfer. It is the fastest formulation that we found.

#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

struct Application {
  double compute;
  double work;
  std::vector<sg4::Host*> targets;
  std::vector<sg4::ExecPtr> transfers; // of the phase under way; SimGrid needs them held until they complete
  size_t open       = 0;
  double started    = 0;
  long done         = 0;
  double io_seconds = 0;
};

static void start_transfers(Application& app)
{
  app.started = sg4::Engine::get_clock();
  app.open    = app.targets.size();
  app.transfers.clear();
  for (sg4::Host* target : app.targets) {
    sg4::ExecPtr transfer = sg4::Exec::init();
    transfer->set_flops_amount(app.work);
    transfer->set_host(target);
    transfer->set_data(&app);
    app.transfers.push_back(transfer);
    transfer->start();
  }
}

static void end_phase(Application& app)
{
  app.done++;
  app.io_seconds += sg4::Engine::get_clock() - app.started;
}

static void start_computing(Application& app)
{
  simgrid::kernel::timer::Timer::set(sg4::Engine::get_clock() + app.compute, [&app] { start_transfers(app); });
}

static void end_transfer(sg4::Activity const& activity)
{
  auto& app = *static_cast<sg4::Exec const&>(activity).get_data<Application>();
  if (--app.open == 0) {
    end_phase(app);
    start_computing(app);
  }
}

static void act(Application& app)
{
  while (true) {
    sg4::this_actor::sleep_for(app.compute);
    start_transfers(app);
    for (auto const& transfer : app.transfers)
      transfer->wait();
    end_phase(app);
  }
}

static void run_callbacks(sg4::Engine& engine, std::vector<Application>& apps, double horizon)
{
  sg4::Activity::on_completion_cb(end_transfer);
  for (auto& app : apps)
    start_computing(app);
  engine.run_until(horizon);
}

static void run_actors(sg4::Engine& engine, std::vector<Application>& apps, sg4::Host* front_end, double horizon)
{
  for (auto& app : apps)
    sg4::Actor::create("application", front_end, [&app] { act(app); });
  engine.run_until(horizon);
}

int main(int argc, char** argv)
{
  sg4::Engine engine(&argc, argv); // takes the --cfg and --log options out of argv
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s FILE callbacks|actors\n", argv[0]);
    return 2;
  }
  std::ifstream in(argv[1]);
  size_t targets;
  size_t applications;
  double horizon;
  in >> targets >> applications >> horizon;

  auto* zone = sg4::create_full_zone("machine");
  std::vector<sg4::Host*> hosts;
  for (size_t t = 0; t < targets; t++)
    hosts.push_back(zone->create_host("target-" + std::to_string(t), 1.0));
  auto* front_end = zone->create_host("front-end", 1.0);
  zone->seal();

  std::vector<Application> apps(applications);
  for (auto& app : apps) {
    size_t n;
    in >> app.compute >> app.work >> n;
    for (size_t t; n > 0 && in >> t; n--)
      app.targets.push_back(hosts.at(t));
  }
  if (!in) {
    std::fprintf(stderr, "%s: is not as described in phases.cpp\n", argv[1]);
    return 2;
  }

  auto begin = std::chrono::steady_clock::now();
  if (std::string(argv[2]) == "actors")
    run_actors(engine, apps, front_end, horizon);
  else
    run_callbacks(engine, apps, horizon);
  std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;

  std::printf("%.9f\n", wall.count());
  for (auto const& app : apps)
    std::printf("%ld %.17g\n", app.done, app.io_seconds);
  std::fflush(stdout);
  std::_Exit(0); // what is still under way at the horizon needs no tidying up
}
