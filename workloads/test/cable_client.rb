# frozen_string_literal: true

require 'json'
require 'socket'
require 'timeout'
require 'websocket/driver'

# A small Action Cable client: welcome, subscription, confirmation, then messages.
class CableClient
  IDENTIFIER = JSON.generate(channel: 'BenchmarkChannel')

  attr_reader :url

  def initialize(port)
    @url = "ws://127.0.0.1:#{port}/cable"
    @socket = TCPSocket.new('127.0.0.1', port)
    @received = []
    @driver = WebSocket::Driver.client(self, protocols: ['actioncable-v1-json'])
    @driver.on(:message) { |event| @received << JSON.parse(event.data) }
    @driver.start
    wait_for { |message| message['type'] == 'welcome' }
  end

  def write(bytes)
    @socket.write(bytes)
  end

  def subscribe
    send_command('subscribe')
    wait_for { |message| message['type'] == 'confirm_subscription' }
    self
  end

  def perform(action, payload)
    send_command('message', data: JSON.generate(action: action, payload: payload))
  end

  # The next message with this action.
  def receive(action)
    wait_for { |message| message['message'].is_a?(Hash) && message['message']['action'] == action }.fetch('message')
  end

  def close
    @socket.close
  end

  private

  def send_command(command, more = {})
    @driver.text(JSON.generate({ command: command, identifier: IDENTIFIER }.merge(more)))
  end

  def wait_for(&wanted)
    Timeout.timeout(10) do
      until (index = @received.index(&wanted))
        @driver.parse(@socket.readpartial(65_536))
      end
      @received.delete_at(index)
    end
  end
end
