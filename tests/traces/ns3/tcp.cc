// One TCP over one link in ns-3: the windows that crates/sim/tests/foreign.rs compares ours with.
//
//   tcp CONTROLLER RATE_BPS DELAY_MS QUEUE_PACKETS SECONDS [LOST_PACKET...]
//
// Prints CSV: `s,SECONDS,WINDOW,RECEIVED` every tenth of a second (bytes of window, bytes that the application has), `t,SECONDS,BYTES` when the
// slow start threshold changes, `d,SECONDS` for a packet that the list drops. Lost packets are counted from 0 as they reach the receiver; the
// SYN is packet 0, the ACK of the SYN/ACK packet 1.
#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <cstdio>
#include <cstdlib>
#include <list>
#include <string>

using namespace ns3;

namespace
{
// Data in a segment, and the headers that ns-3 puts before it: PPP, IPv4, TCP without options.
constexpr uint32_t SEGMENT = 1460;
constexpr uint32_t HEADERS = 40;
constexpr uint32_t PPP = 2;

double Now() { return Simulator::Now().GetSeconds(); }

uint32_t g_window = 0;

void Window(uint32_t, uint32_t bytes) { g_window = bytes; }

void Threshold(uint32_t, uint32_t bytes) { std::printf("t,%.6f,%u\n", Now(), bytes); }

void Dropped(Ptr<const Packet>) { std::printf("d,%.6f\n", Now()); }

void Sample(Ptr<PacketSink> sink)
{
    std::printf("s,%.1f,%u,%llu\n", Now(), g_window, static_cast<unsigned long long>(sink->GetTotalRx()));
    Simulator::Schedule(MilliSeconds(100), &Sample, sink);
}

void Listen()
{
    const std::string socket = "/NodeList/0/$ns3::TcpL4Protocol/SocketList/0/";
    Config::ConnectWithoutContext(socket + "CongestionWindow", MakeCallback(&Window));
    Config::ConnectWithoutContext(socket + "SlowStartThreshold", MakeCallback(&Threshold));
}
} // namespace

int main(int argc, char* argv[])
{
    if (argc < 6)
    {
        return 2;
    }
    const std::string controller = argv[1];
    // The link carries two bytes of PPP more per packet than IP has: a full packet takes as long as 1500 bytes at the rate asked for.
    const auto full = static_cast<uint64_t>(SEGMENT + HEADERS);
    const uint64_t rate = std::strtoull(argv[2], nullptr, 10) * (full + PPP) / full;
    const int delay = std::atoi(argv[3]);
    const double seconds = std::atof(argv[5]);
    std::list<uint32_t> lost;
    for (int i = 6; i < argc; ++i)
    {
        lost.push_back(std::atoi(argv[i]));
    }

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::" + controller)));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TypeId::LookupByName("ns3::TcpPrrRecovery")));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(SEGMENT));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 26));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 26));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::TcpCubic::HyStart", BooleanValue(false));

    NodeContainer nodes;
    nodes.Create(2);
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(rate)));
    link.SetChannelAttribute("Delay", TimeValue(MilliSeconds(delay)));
    link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue(std::string(argv[4]) + "p"));
    NetDeviceContainer devices = link.Install(nodes);
    InternetStackHelper stack;
    stack.Install(nodes);
    Ipv4AddressHelper address;
    address.SetBase("10.0.0.0", "255.255.255.0");
    Ipv4InterfaceContainer interfaces = address.Assign(devices);
    // The device's queue is the only one.
    TrafficControlHelper control;
    control.Uninstall(devices);

    auto errors = CreateObject<ReceiveListErrorModel>();
    errors->SetList(lost);
    devices.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(errors));
    devices.Get(1)->TraceConnectWithoutContext("PhyRxDrop", MakeCallback(&Dropped));

    PacketSinkHelper sinks("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 5000));
    ApplicationContainer sink = sinks.Install(nodes.Get(1));
    BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(interfaces.GetAddress(1), 5000));
    bulk.SetAttribute("MaxBytes", UintegerValue(0));
    bulk.SetAttribute("SendSize", UintegerValue(SEGMENT * 16));
    ApplicationContainer sender = bulk.Install(nodes.Get(0));
    sink.Start(Seconds(0));
    sender.Start(Seconds(0));
    Simulator::Schedule(NanoSeconds(1), &Listen);
    Simulator::Schedule(MilliSeconds(100), &Sample, DynamicCast<PacketSink>(sink.Get(0)));
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    Simulator::Destroy();
    return 0;
}
