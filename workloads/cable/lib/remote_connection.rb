# frozen_string_literal: true

# The connection of a channel whose socket is in another process: it collects the messages to send.
class RemoteConnection
  attr_reader :transmissions

  def initialize
    @transmissions = []
  end

  def identifiers
    []
  end

  # Rails 7.1 and newer name an action's parameters in what they instrument.
  def config
    ActionCable.server.config
  end

  def logger
    ActionCable.server.logger
  end

  def transmit(message)
    @transmissions << ActiveSupport::JSON.encode(message)
  end
end
